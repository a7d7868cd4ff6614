// The gradients of the step that is being gathered (sync), for all slices and tables of a shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pserver/state/push.h"
#include "pserver/tables/dense_table.h"
#include "pserver/tables/gathered_gradients.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {

// Records which gradients of the step each trainer has sent. An index names a slice or a table as
// in ShardParams. Not thread-safe.
class StepGradients {
 public:
  // `slices` and `tables` must outlive this object.
  StepGradients(const DenseTable& slices, const SparseTables& tables, int trainers);

  // Returns whether the push contains all gradients that a step needs from one trainer. Always
  // returns false if tables exist and this server serves no rows.
  bool IsWholeStep(const PushHead& head) const;
  bool Has(int index, int trainer) const;
  // Moves the values of a push from `ticket` into this object. REQUIRES: !Has for each slice and
  // table of the push.
  void Gather(const PushHead& head, PushTicket& ticket);
  bool GaveAll(int trainer) const;
  bool GaveNothing(int trainer) const;
  bool NothingGathered() const;  // true: no trainer has sent a gradient of this step
  // Returns the names of the variables and tables for which gradients of the trainer are missing.
  std::vector<std::string> Lacks(int trainer) const;
  void Drop(int trainer);
  // Returns the highest event time of the gathered pushes of `ranks` that have gradients of tables;
  // 0: it is unknown. Pushes of slices do not count, because only the owners of the slices get
  // them.
  int64_t EventTime(std::span<const int> ranks) const;
  // Called when the gradients of tables were applied and dropped.
  void OnEnded() { std::ranges::fill(event_times_, 0); }

  // The gathered gradients of slices and of tables. The owner applies and then drops the gradients.
  // When the owner adds or removes a slice, the owner also adds or removes the item of the slice.
  SliceGradients& slices() { return slice_gradients_; }
  TableGradients& tables() { return table_gradients_; }

 private:
  const DenseTable& slices_;
  const SparseTables& tables_;
  const int trainers_;
  SliceGradients slice_gradients_;
  TableGradients table_gradients_;
  std::vector<int64_t> event_times_;  // by trainer: highest event time in this step
};

}  // namespace tandem::pserver
