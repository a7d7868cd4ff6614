// The part of the next step's data that the reader has already read.
#pragma once

#include <vector>

namespace tandem::trainer {

// The values that one data variable will have in the next step.
struct NextValues {
  const void* variable = nullptr;  // address of the variable's tensor; identifies the variable
  const void* values = nullptr;    // values in host memory, valid until the next step begins
};

// The values of the next batch, one entry for each data variable. Empty: no value is known.
using NextBatchHint = std::vector<NextValues>;

}  // namespace tandem::trainer
