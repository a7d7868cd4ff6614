#include "kernels/exec/packing.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "common/base/require.h"
#include "common/tensor/device.h"

namespace tandem::exec {
namespace {

using Lifetimes = std::span<const Lifetime>;
using Order = std::vector<size_t>;

size_t Aligned(size_t bytes) {
  return (bytes + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
}

// Returns, by operator, the change of the live bytes: the bytes of blocks whose lifetime begins at
// the operator, minus the bytes of blocks whose lifetime ended at the previous operator.
std::map<int, int64_t> LiveChanges(Lifetimes lifetimes) {
  std::map<int, int64_t> change;
  for (const Lifetime& life : lifetimes) {
    TD_REQUIRE(life.first <= life.last);
    change[life.first] += static_cast<int64_t>(Aligned(life.bytes));
    change[life.last + 1] -= static_cast<int64_t>(Aligned(life.bytes));
  }
  return change;
}

// ---- Orders in which blocks are placed ----------------------------------------------------------

// Returns the blocks in descending order of `key`.
Order By(Lifetimes lifetimes, const std::function<double(const Lifetime&)>& key) {
  Order order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return key(lifetimes[a]) > key(lifetimes[b]); });
  return order;
}

double Length(const Lifetime& life) { return life.last - life.first + 1; }

Order BySize(Lifetimes lifetimes) {
  return By(lifetimes, [](const Lifetime& life) { return static_cast<double>(life.bytes); });
}
Order ByLifetime(Lifetimes lifetimes) { return By(lifetimes, Length); }
Order ByArea(Lifetimes lifetimes) {
  return By(lifetimes,
            [](const Lifetime& life) { return static_cast<double>(life.bytes) * Length(life); });
}
// Orders the blocks by first use, the order in which a run-time allocator would allocate them.
Order ByFirstUse(Lifetimes lifetimes) {
  return By(lifetimes, [](const Lifetime& life) { return -static_cast<double>(life.first); });
}

// Orders the blocks by operator. Blocks that are alive at the operator with the most live bytes
// come first. Blocks of the operator with the next most live bytes follow, and so on. Blocks of one
// operator are in descending order of size.
Order ByBreadth(Lifetimes lifetimes) {
  // (bytes alive at the operator, index of the operator)
  std::vector<std::pair<int64_t, int>> live;
  int64_t now = 0;
  for (const auto& [op, delta] : LiveChanges(lifetimes)) live.emplace_back(now += delta, op);
  std::vector<double> key(lifetimes.size());
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    for (const auto& [bytes, op] : live) {
      const bool meets = lifetimes[i].first <= op && op <= lifetimes[i].last;
      if (meets) key[i] = std::max(key[i], static_cast<double>(bytes));
    }
  }
  Order order = BySize(lifetimes);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key[a] > key[b]; });
  return order;
}

// ---- Packing the blocks in one order ------------------------------------------------------------

enum class Gap { kLowest, kTightest };

// Returns an offset for block `life` that is free during the lifetime of the block. `placed` has
// the blocks that already have an offset, by ascending offset.
size_t Place(Lifetimes lifetimes, const std::vector<size_t>& offsets, const Order& placed,
             const Lifetime& life, Gap gap) {
  size_t end = 0;  // largest end of the overlapping blocks visited so far
  size_t best = 0, best_gap = std::numeric_limits<size_t>::max();
  for (const size_t j : placed) {
    const Lifetime& other = lifetimes[j];
    if (other.last < life.first || life.last < other.first) continue;
    if (offsets[j] >= end + Aligned(life.bytes)) {
      if (gap == Gap::kLowest) return end;
      if (offsets[j] - end < best_gap) {
        best = end;
        best_gap = offsets[j] - end;
      }
    }
    end = std::max(end, offsets[j] + Aligned(other.bytes));
  }
  return best_gap == std::numeric_limits<size_t>::max() ? end : best;
}

Packing Pack(Lifetimes lifetimes, const Order& order, Gap gap) {
  Packing packing;
  packing.offsets.resize(lifetimes.size());
  TD_REQUIRE(order.size() == lifetimes.size());
  Order placed;  // indices of the placed blocks, by ascending offset
  for (const size_t i : order) {
    const size_t offset = Place(lifetimes, packing.offsets, placed, lifetimes[i], gap);
    TD_REQUIRE(offset % Device::kAlignment == 0);
    packing.offsets[i] = offset;
    packing.bytes = std::max(packing.bytes, offset + Aligned(lifetimes[i].bytes));
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](size_t o, size_t j) { return o < packing.offsets[j]; });
    placed.insert(at, i);
  }
  return packing;
}

struct OrderRow {
  const char* name;
  Order (*make)(Lifetimes);
};

constexpr OrderRow kOrders[] = {{"size", BySize},
                                {"breadth", ByBreadth},
                                {"lifetime", ByLifetime},
                                {"area", ByArea},
                                {"first use", ByFirstUse}};

}  // namespace

size_t LargestLiveSum(Lifetimes lifetimes) {
  int64_t now = 0, most = 0;
  for (const auto& [op, delta] : LiveChanges(lifetimes)) most = std::max(most, now += delta);
  return static_cast<size_t>(most);
}

Packing PackArena(Lifetimes lifetimes) {
  const size_t bytes_min = LargestLiveSum(lifetimes);
  Packing best;
  best.bytes = std::numeric_limits<size_t>::max();
  for (const OrderRow& row : kOrders) {
    const Order order = row.make(lifetimes);
    for (const Gap gap : {Gap::kLowest, Gap::kTightest}) {
      Packing packing = Pack(lifetimes, order, gap);
      packing.order = row.name;
      TD_REQUIRE(packing.bytes >= bytes_min);
      if (packing.bytes < best.bytes) best = std::move(packing);
      if (best.bytes == bytes_min) return best;
    }
  }
  return best;
}

}  // namespace tandem::exec
