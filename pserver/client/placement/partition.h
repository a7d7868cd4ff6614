// Assigns the elements of variables to servers. The result depends only on the variables and the
// options, so every trainer computes the same placement. Source of the splitting rule:
// slice_variable() of PaddlePaddle 1.8 (python/paddle/fluid/transpiler/distribute_transpiler.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem::ps {

struct PsVariable {
  std::string name;
  Shape shape;
};

enum class PsDispatcher : uint8_t {
  kRoundRobin,    // slice i of all slices is on server i modulo the number of servers
  kHashName,      // the server is a stable hash of the variable's name and the slice's offset
  kSizeBalanced,  // the largest slice first, each on the server with the fewest elements so far
};

struct PartitionOptions {
  int servers = 1;
  // true: large variables are split, so that every server gets a part; false: variables are not
  // split.
  bool slice_var_up = true;
  int64_t min_block_size = 8192;  // minimum number of elements of a slice that a split makes
  PsDispatcher dispatcher = PsDispatcher::kRoundRobin;
};

// A slice: elements [offset, offset + numel) of the flattened variable variables[variable].
struct PsSlice {
  int variable = 0;
  int64_t offset = 0, numel = 0;
  int server = 0;
};
using PsBlock = PsSlice;  // former name, from releases before 0.2

// Returns the slices in the order of variables and offsets. Every element of every variable is in
// exactly one slice. A variable of two or more dimensions is split only between rows.
// INVALID_ARGUMENT: no servers, min_block_size < 1, an empty variable or a repeated name.
StatusOr<std::vector<PsSlice>> Partition(const std::vector<PsVariable>& variables,
                                         const PartitionOptions& options);

}  // namespace tandem::ps
