// Writes the body of a fused operator as the source of one CUDA kernel. NVRTC compiles the source
// when a plan is made (fused_compiled_cuda.h). Values between the operators stay in registers.
// Independent groups, such as the updates of many parameters, run in one launch.
//
// Every operator uses the same formula (formulas/) as in its own kernel. If the operator's own
// kernel would store a value in a 16-bit tensor, the fused kernel rounds the value to 16 bits.
// Therefore the results have the same bits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/ops/cuda/nvrtc_library.h"
#include "kernels/ops/fused/fused_elementwise.h"
#include "kernels/ops/fused/fused_table.h"

namespace tandem::ops {

struct FusedSource {
  struct Group {
    int64_t elements;
    uint8_t body;  // number of the group's code; groups with equal code have the same number
    // Indices in Body::values of the tensors whose addresses the code uses. The order is that of
    // the addresses in the FusedTable.
    std::vector<int> values;
  };
  // The source of function `fused`, for blocks of kFusedThreads threads. If `ends` is true, the
  // source also contains `fused_end`, which must run after all launches of `fused`. Both functions
  // have a FusedTable<groups_max, addresses_max> as argument.
  std::string text;
  std::vector<Group> groups;
  bool ends = false;
  size_t groups_max = 0, addresses_max = 0;  // capacities of the table of one launch
};

// Returns the source for `body`. UNIMPLEMENTED, with the reason: the source cannot be written, for
// example because an operator of the body is not supported.
StatusOr<FusedSource> WriteFusedSource(const Body& body);

// Returns all headers that the source includes, directly or through other headers.
std::span<const HeaderText> FusedHeaders();

}  // namespace tandem::ops
