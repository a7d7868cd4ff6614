// Definitions of the communication operators (for op_table.cc).
#pragma once

#include "kernels/ops/op.h"

namespace tandem {

extern const OpDef kAllReduceSum, kBroadcast, kGeoExchange, kPushPull, kRankReduceSum;

}  // namespace tandem
