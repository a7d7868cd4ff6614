// Implementations of an operator held against plain loops in double precision (oracle.h), as gtest
// expectations.
#pragma once

#include "common/tensor/device.h"
#include "tests/ops/op_case.h"

namespace tandem::optest {

inline constexpr uint64_t kCheckSeed = 20;

// Runs every implementation that serves the row: results, the same bits again, with any sharing of
// memory that the operator allows (and the row's kernels) and, in host memory, on two threads;
// nothing written beside the outputs. `device`: where they run; nullptr: in host memory. How many
// serve it.
int CheckCase(const OpCase& c, const KernelRegistration& row, Device* device = nullptr);

}  // namespace tandem::optest
