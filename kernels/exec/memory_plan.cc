#include "kernels/exec/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "common/tensor/device.h"

namespace tandem {
namespace {

size_t Aligned(size_t bytes) {
  return (bytes + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
}

size_t LargestLiveSum(std::span<const Lifetime> lifetimes) {
  std::map<int, int64_t> change;  // at an operator: bytes that begin to live minus bytes that ended
  for (const Lifetime& life : lifetimes) {
    change[life.first] += static_cast<int64_t>(Aligned(life.bytes));
    change[life.last + 1] -= static_cast<int64_t>(Aligned(life.bytes));
  }
  int64_t now = 0, most = 0;
  for (const auto& [op, delta] : change) most = std::max(most, now += delta);
  return static_cast<size_t>(most);
}

}  // namespace

Packing PackArena(std::span<const Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  Packing packing;
  packing.offsets.resize(lifetimes.size());
  packing.bytes_min = LargestLiveSum(lifetimes);
  std::vector<size_t> placed;  // ascending by offset
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    size_t offset = 0;
    for (size_t j : placed) {
      const Lifetime& other = lifetimes[j];
      if (other.last < life.first || life.last < other.first) continue;
      if (packing.offsets[j] >= offset + Aligned(life.bytes)) break;
      offset = std::max(offset, packing.offsets[j] + Aligned(other.bytes));
    }
    packing.offsets[i] = offset;
    packing.bytes = std::max(packing.bytes, offset + Aligned(life.bytes));
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](size_t o, size_t j) { return o < packing.offsets[j]; });
    placed.insert(at, i);
  }
  return packing;
}

}  // namespace tandem
