// The body of a fused operator as the source of one CUDA kernel, which NVRTC compiles when a plan
// is made (fused_compiled_cuda.h). What lies between the operators stays in registers, and groups
// that have nothing to do with each other, such as the updates of many parameters, are one launch.
//
// Every operator is written as the formula (formulas/) that its own kernels use, and what a tensor
// of 16 bits would round is rounded, so the results are the same bits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/ops/cuda/nvrtc_library.h"
#include "kernels/ops/fused/fused_elementwise.h"
#include "kernels/ops/fused/fused_table.h"

namespace tandem {

struct FusedSource {
  struct Group {
    int64_t elements;
    uint8_t body;             // number of its code: groups alike share one
    std::vector<int> values;  // indices of Body::values whose addresses the code takes, in order
  };
  // Functions `fused`, for blocks of kFusedThreads, and, with ends, `fused_end`, which comes behind
  // all launches of `fused`. Both take a FusedTable<groups_max, addresses_max>.
  std::string text;
  std::vector<Group> groups;
  bool ends = false;
  size_t groups_max = 0, addresses_max = 0;  // of one launch
};

// UNIMPLEMENTED naming the operator that has no formula here, or what else is in the way.
StatusOr<FusedSource> WriteFusedSource(const Body& body);

// All headers that the source includes, themselves or by one another.
std::span<const HeaderText> FusedHeaders();

}  // namespace tandem
