// Compares implementations of an operator with plain loops in double precision (oracle.h), as gtest
// expectations.
#pragma once

#include "common/tensor/device.h"
#include "tests/ops/op_case.h"

namespace tandem::optest {

inline constexpr uint64_t kCheckSeed = 20;

// Runs every implementation that supports the row and returns their number. Checks the results; the
// same bits in a second run, with any sharing of memory that the operator allows (and the row's
// kernels) and, in host memory, on two threads; and that nothing is written outside the outputs.
// `device`: where they run; nullptr: in host memory.
int CheckCase(const OpCase& c, const KernelRegistration& row, Device* device = nullptr);

}  // namespace tandem::optest
