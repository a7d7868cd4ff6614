// Rows of tables that lie on pservers alone, for one batch (the operator prefetch_rows).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"
#include "pserver/client/client.h"
#include "trainer/ps/next_batch_hint.h"
#include "trainer/ps/row_index.h"

namespace tandem {

// One prefetch_rows of a plan.
class PrefetchNode {
 public:
  explicit PrefetchNode(const CommNode& node);

  // The rows that the ids in memory now ask for, and where they go; writes Index, and zeros behind
  // the rows. INVALID_ARGUMENT for an id that is no row.
  StatusOr<PsRows> Ask();
  // What the next Ask gives, but for the places, if it is for the ids that `next` tells; and makes
  // that one short. Nullopt: they are not told, or one of them is no row. Behind Ask.
  std::optional<PsRows> Foresee(const NextBatchHint& next);
  // Where in Rows the first id of PsRows lies.
  int64_t first() const { return padding_ < 0 ? 0 : 1; }
  // Of each row of the last Ask how often it was asked for, and how often by a record that was
  // clicked: [rows, 2]. `click`: a number for each record.
  std::vector<float> Counts(const CommTensor& click) const;

 private:
  Status Index(std::span<const std::span<const int64_t>> ids, RowIndex* index) const;

  std::string table_;
  int64_t height_, dim_, padding_;
  std::vector<std::span<const int64_t>> ids_;
  std::vector<size_t> ids_of_record_;  // as many as ids_
  std::vector<int64_t*> index_;        // as many as ids_
  std::span<float> rows_;
  RowIndex batch_;
  std::vector<std::vector<int64_t>> next_ids_;  // as many as ids_, or none
  RowIndex next_;                               // of these
};

// The prefetches of plans that train nothing. Nodes of plans that are gone stay, unused.
class PrefetchHandler final : public CommHandler {
 public:
  using Pull = std::function<void(PsRows rows, CommDone* done)>;
  // `pull` completes `done` once the rows are there.
  PrefetchHandler(Duration timeout, Pull pull) : timeout_(timeout), pull_(std::move(pull)) {}

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return timeout_; }

 private:
  const Duration timeout_;
  const Pull pull_;
  std::vector<PrefetchNode> nodes_;
};

}  // namespace tandem
