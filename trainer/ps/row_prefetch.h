// The rows for one batch from tables that are stored only on pservers (the operator prefetch_rows).
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

namespace tandem::trainer {

// One prefetch_rows operator of a plan.
class PrefetchNode {
 public:
  explicit PrefetchNode(const CommNode& node);

  // Reads the current ids; returns the rows to pull and their destinations. Writes Index, and zeros
  // after the rows. INVALID_ARGUMENT: an id is outside the table.
  StatusOr<ps::PsRows> Ask();
  // Predicts the rows of the next Ask from the ids in `next`, without their destinations. Makes
  // that Ask cheaper if its ids are the same. Nullopt: `next` lacks the ids, or an id is outside
  // the table. Call it after Ask.
  std::optional<ps::PsRows> Foresee(const NextBatchHint& next);
  // The index in Rows of the first id of PsRows.
  int64_t first() const { return padding_ < 0 ? 0 : 1; }
  // Two counts for each row of the last Ask, as [rows, 2]: its uses, and its uses by records with a
  // click. `click`: one number per record.
  std::vector<float> Counts(const CommTensor& click) const;

 private:
  Status Index(std::span<const std::span<const int64_t>> ids, RowIndex* index) const;

  std::string table_;
  int64_t height_, dim_, padding_;
  std::vector<std::span<const int64_t>> ids_;
  std::vector<size_t> ids_of_record_;  // same size as ids_
  std::vector<int64_t*> index_;        // same size as ids_
  std::span<float> rows_;
  RowIndex batch_;
  std::vector<std::vector<int64_t>> next_ids_;  // same size as ids_, or empty
  RowIndex next_;                               // rows of next_ids_
};

// Prefetches rows for plans without training. Nodes of destroyed plans remain, unused.
class PrefetchHandler final : public CommHandler {
 public:
  using Pull = std::function<void(ps::PsRows rows, CommDone* done)>;
  // `pull` completes `done` once the rows have arrived.
  PrefetchHandler(Duration timeout, Pull pull) : timeout_(timeout), pull_(std::move(pull)) {}

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return timeout_; }

 private:
  const Duration timeout_;
  const Pull pull_;
  std::vector<PrefetchNode> nodes_;
};

}  // namespace tandem::trainer
