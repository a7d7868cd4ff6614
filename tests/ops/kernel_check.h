// Compares implementations of an operator with plain loops in double precision (oracle.h). A
// difference fails the gtest test.
#pragma once

#include "common/tensor/device.h"
#include "tests/ops/op_case.h"

namespace tandem::optest {

inline constexpr uint64_t kCheckSeed = 20;

// Runs every implementation that supports the row `c`, and returns the number of these
// implementations. Checks the results, and that the kernel writes only to its outputs. Also checks
// that the bits are equal in a second run, with each way of sharing memory that the operator and
// `row` allow, and in host memory with two threads. `device`: the implementations run on this
// device; nullptr: in host memory.
int CheckCase(const OpCase& c, const ops::KernelRegistration& row, Device* device = nullptr);

}  // namespace tandem::optest
