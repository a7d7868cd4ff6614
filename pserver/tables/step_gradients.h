// The gradients of the step that is being gathered (sync), of the slices and tables of a shard.
#pragma once

#include <string>
#include <vector>

#include "pserver/state/push.h"
#include "pserver/tables/dense_table.h"
#include "pserver/tables/gathered_gradients.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {

// Knows which gradients a step needs and which trainer has sent which. An index names a slice or a
// table as in ShardParams. Not thread-safe.
class StepGradients {
 public:
  // `slices` and `tables` must outlive this.
  StepGradients(const DenseTable& slices, const SparseTables& tables, int trainers);

  // Whether the push contains all gradients that a step needs from a trainer.
  bool IsWholeStep(const PushHead& head) const;
  bool Has(int index, int trainer) const;
  // Takes the values of a push from `ticket`. REQUIRES: !Has for each of its slices and tables.
  void Gather(const PushHead& head, PushTicket& ticket);
  bool GaveAll(int trainer) const;
  bool GaveNothing(int trainer) const;
  bool NothingGathered() const;  // by any trainer
  // Variables and tables for which gradients of the trainer are missing.
  std::vector<std::string> Lacks(int trainer) const;
  void Drop(int trainer);

  // The gradients of slices and of tables, which the owner applies, then drops. It adds and removes
  // items together with slices.
  SliceGradients& slices() { return slice_gradients_; }
  TableGradients& tables() { return table_gradients_; }

 private:
  const DenseTable& slices_;
  const SparseTables& tables_;
  const int trainers_;
  SliceGradients slice_gradients_;
  TableGradients table_gradients_;
};

}  // namespace tandem::pserver
