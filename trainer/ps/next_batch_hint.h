// The data of the next step, as far as the reader has it already.
#pragma once

#include <utility>
#include <vector>

namespace tandem::trainer {

// Pairs of addresses: a data variable of the plan, and its next values in host memory. The values
// stay valid until that step begins. Empty: the values are unknown.
using NextBatchHint = std::vector<std::pair<const void*, const void*>>;

}  // namespace tandem::trainer
