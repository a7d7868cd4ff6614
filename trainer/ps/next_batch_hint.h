// The data of the next step, as far as the reader has it already.
#pragma once

#include <vector>

namespace tandem::trainer {

// The next values of one data variable.
struct NextValues {
  const void* variable = nullptr;  // address of the variable of the plan
  const void* values = nullptr;    // in host memory, valid until the next step begins
};

// Empty: the values are unknown.
using NextBatchHint = std::vector<NextValues>;

}  // namespace tandem::trainer
