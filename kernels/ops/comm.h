// Definitions of the communication operators, for op_table.cc.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

extern const OpDef kAllGatherSelected, kAllReduceSum, kBroadcast, kBroadcastParams, kGeoExchange,
    kPrefetchRows, kPullRows, kPushPull, kPushRows, kRankReduceSum, kRecvV2, kSendV2;

}  // namespace tandem
