// Gradients of the step that is being gathered. Each item is a slice or a table. There is at most
// one gradient of each item from each trainer.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/tables/rows/rows_gradient.h"

namespace tandem::pserver {

// The gathered gradients by item and trainer. Not thread-safe.
template <typename Gradient>
class GatheredGradients {
 public:
  GatheredGradients(size_t items, int trainers)
      : items_(items, Row(static_cast<size_t>(trainers))),
        counts_(static_cast<size_t>(trainers), 0) {}

  size_t items() const { return items_.size(); }
  bool Has(int item, int trainer) const { return At(item, trainer).has_value(); }
  // Returns the gradient of an item from a trainer. REQUIRES: Has(item, trainer).
  const Gradient& Get(int item, int trainer) const {
    CHECK(Has(item, trainer));
    return *At(item, trainer);
  }
  // Number of items for which `trainer` has a gradient.
  size_t count(int trainer) const { return counts_[static_cast<size_t>(trainer)]; }
  // Adds the gradient of an item from a trainer. REQUIRES: !Has(item, trainer).
  void Put(int item, int trainer, Gradient gradient) {
    CHECK(!Has(item, trainer));
    items_[static_cast<size_t>(item)][static_cast<size_t>(trainer)] = std::move(gradient);
    ++counts_[static_cast<size_t>(trainer)];
  }
  // Drops all gradients from `trainer`.
  void Drop(int trainer) {
    if (count(trainer) == 0) return;
    for (Row& row : items_) row[static_cast<size_t>(trainer)].reset();
    counts_[static_cast<size_t>(trainer)] = 0;
  }
  void DropAll() {
    for (size_t t = 0; t < counts_.size(); ++t) Drop(static_cast<int>(t));
  }
  // Adds an item at the end, without gradients.
  void AddItem() { items_.emplace_back(counts_.size()); }
  // Removes an item with its gradients. The indices of later items decrease by 1.
  void RemoveItem(int item) {
    TD_REQUIRE(item >= 0 && static_cast<size_t>(item) < items_.size());
    for (size_t t = 0; t < counts_.size(); ++t) counts_[t] -= Has(item, static_cast<int>(t));
    items_.erase(items_.begin() + item);
  }

 private:
  using Row = std::vector<std::optional<Gradient>>;  // by trainer: the gradient of one item

  const std::optional<Gradient>& At(int item, int trainer) const {
    TD_REQUIRE(item >= 0 && static_cast<size_t>(item) < items_.size());
    TD_REQUIRE(trainer >= 0 && static_cast<size_t>(trainer) < counts_.size());
    return items_[static_cast<size_t>(item)][static_cast<size_t>(trainer)];
  }

  std::vector<Row> items_;
  std::vector<size_t> counts_;  // by trainer: number of items for which the trainer has a gradient
};

using SliceGradients = GatheredGradients<Buffer>;  // each gradient is f32 [numel of the slice]
using TableGradients = GatheredGradients<PushedRows>;

}  // namespace tandem::pserver
