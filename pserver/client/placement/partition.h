// Which server owns which elements. A pure function of variables and options: every trainer
// computes the same placement. Source of the cutting rule: slice_variable() of PaddlePaddle 1.8
// (python/paddle/fluid/transpiler/distribute_transpiler.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem {

struct PsVariable {
  std::string name;
  Shape shape;
};

enum class PsDispatcher : uint8_t {
  kRoundRobin,    // block i of all blocks goes to server i modulo servers
  kHashName,      // by a stable hash of the variable's name (and block number)
  kSizeBalanced,  // largest block first, to the server that has the fewest elements
};

struct PartitionOptions {
  int servers = 1;
  // Cut large variables, so that every server has a part. Off: whole variables are placed.
  bool slice_var_up = true;
  int64_t min_block_size = 8192;  // elements; no block is made smaller than this by cutting
  PsDispatcher dispatcher = PsDispatcher::kRoundRobin;
};

// Elements [offset, offset + numel) of variables[variable], flattened.
struct PsSlice {
  int variable = 0;
  int64_t offset = 0, numel = 0;
  int server = 0;
};
using PsSlice = PsSlice;  // its name in releases before 0.2

// Blocks in the order of variables and offsets; every element of every variable is in exactly one.
// A variable of two and more dimensions is cut between rows. INVALID_ARGUMENT for no servers,
// min_block_size < 1, empty variables and names that come twice.
StatusOr<std::vector<PsSlice>> Partition(const std::vector<PsVariable>& variables,
                                         const PartitionOptions& options);

}  // namespace tandem
