// Writes the body of a fused operator as the source of one CUDA kernel, which NVRTC compiles when a
// plan is made (fused_compiled_cuda.h). Values between the operators stay in registers. Independent
// groups, such as the updates of many parameters, run in one launch.
//
// Every operator uses the same formula (formulas/) as its own kernel. Values that a 16-bit tensor
// would round are rounded. The results therefore have the same bits.
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
    uint8_t body;             // number of the group's code; equal groups share one
    std::vector<int> values;  // indices in Body::values of the code's addresses, in order
  };
  // The functions `fused`, for blocks of kFusedThreads, and, if `ends`, `fused_end`, which runs
  // after all launches of `fused`. Both have a FusedTable<groups_max, addresses_max> as argument.
  std::string text;
  std::vector<Group> groups;
  bool ends = false;
  size_t groups_max = 0, addresses_max = 0;  // of one launch
};

// UNIMPLEMENTED, naming the operator or another reason: an operator has no formula here, or the
// body cannot be written.
StatusOr<FusedSource> WriteFusedSource(const Body& body);

// Returns all headers that the source includes, directly or indirectly.
std::span<const HeaderText> FusedHeaders();

}  // namespace tandem
