// Declares the definitions of the communication operators, which op_table.cc lists.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

extern const OpDef kAllGatherSelected, kAllReduceBegin, kAllReduceEnd, kAllReduceSum, kBroadcast,
    kBroadcastParams, kGeoExchange, kPrefetchRows, kPullRows, kPushPull, kPushRows, kRankReduceSum,
    kRecvV2, kSendV2;

}  // namespace tandem::ops
