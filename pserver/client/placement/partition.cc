#include "pserver/client/placement/partition.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "common/base/require.h"
#include "common/base/rng.h"

namespace tandem::ps {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the number of elements of each slice of a variable; the last slice may be smaller.
int64_t BlockSize(const Shape& shape, const PartitionOptions& options) {
  const int64_t numel = shape.numel();
  if (!options.slice_var_up) return numel;
  const int64_t by_size = std::max<int64_t>(1, numel / options.min_block_size);
  const int64_t split = std::min<int64_t>(options.servers, by_size);
  int64_t block = CeilDiv(numel, split);
  if (shape.rank() >= 2) {
    const int64_t row = shape.numel(1, shape.rank());
    block = CeilDiv(block, row) * row;
  }
  return block;
}

void Balance(int servers, std::vector<PsSlice>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].numel > blocks[b].numel; });
  std::vector<int64_t> load(servers, 0);
  for (size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    blocks[i].server = static_cast<int>(least - load.begin());
    *least += blocks[i].numel;
  }
}

void Dispatch(const std::vector<PsVariable>& variables, const PartitionOptions& options,
              std::vector<PsSlice>& blocks) {
  const auto servers = static_cast<uint64_t>(options.servers);
  switch (options.dispatcher) {
    case PsDispatcher::kRoundRobin:
      for (size_t i = 0; i < blocks.size(); ++i) blocks[i].server = static_cast<int>(i % servers);
      return;
    case PsDispatcher::kHashName:
      for (PsSlice& b : blocks) {
        const std::string key = variables[b.variable].name + "@" + std::to_string(b.offset);
        // Uses the upper 32 bits of the hash, because FNV-1a mixes the upper bits better than the
        // lower bits.
        b.server = static_cast<int>((StableHash(key) >> 32) % servers);
      }
      return;
    case PsDispatcher::kSizeBalanced:
      Balance(options.servers, blocks);
      return;
  }
}

}  // namespace

StatusOr<std::vector<PsSlice>> Partition(const std::vector<PsVariable>& variables,
                                         const PartitionOptions& options) {
  if (options.servers < 1)
    return InvalidArgument("the job has %d pservers, expected at least 1", options.servers);
  if (options.min_block_size < 1) {
    return InvalidArgument("min_block_size is %d, expected at least 1 [TD1104]",
                           options.min_block_size);
  }
  std::set<std::string> names;
  std::vector<PsSlice> blocks;
  for (size_t v = 0; v < variables.size(); ++v) {
    const PsVariable& variable = variables[v];
    const int64_t numel = variable.shape.numel();
    if (numel < 1) {
      return InvalidArgument("variable %s has shape %s, but needs at least one element",
                             variable.name, ToString(variable.shape));
    }
    if (!names.insert(variable.name).second) {
      return InvalidArgument("variable %s occurs twice", variable.name);
    }
    const int64_t block = BlockSize(variable.shape, options);
    for (int64_t offset = 0; offset < numel; offset += block) {
      blocks.push_back({static_cast<int>(v), offset, std::min(block, numel - offset), 0});
    }
  }
  Dispatch(variables, options, blocks);
  TD_REQUIRE(std::all_of(blocks.begin(), blocks.end(), [&](const PsSlice& b) {
    return b.numel > 0 && b.server >= 0 && b.server < options.servers;
  }));
  return blocks;
}

}  // namespace tandem::ps
