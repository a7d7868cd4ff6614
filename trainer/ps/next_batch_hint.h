// The data of the step behind the present one, as far as the reader has it already.
#pragma once

#include <utility>
#include <vector>

namespace tandem {

// Where the plan has a data variable, and where in host memory its next values lie, which stay
// until that step begins. Empty: nobody knows them.
using NextBatchHint = std::vector<std::pair<const void*, const void*>>;

}  // namespace tandem
