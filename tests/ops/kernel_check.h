// Compares implementations of an operator with plain loops in double precision (oracle.h).
// Differences are failures of the gtest test.
#pragma once

#include "common/tensor/device.h"
#include "tests/ops/op_case.h"

namespace tandem::optest {

inline constexpr uint64_t kCheckSeed = 20;

// Runs every implementation that supports the row `c` and returns their number. Checks the results,
// and that nothing is written outside the outputs. Also checks for equal bits: in a second run,
// with each way of sharing memory that the operator and `row` allow, and in host memory with two
// threads. `device`: where the implementations run; nullptr: in host memory.
int CheckCase(const OpCase& c, const ops::KernelRegistration& row, Device* device = nullptr);

}  // namespace tandem::optest
