// The operator prefetch_rows: pulls the rows that one batch needs from tables that only pservers
// store.
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

// The state of one prefetch_rows operator of a plan.
class PrefetchNode {
 public:
  explicit PrefetchNode(const exec::CommNode& node);

  // Reads the current ids and returns the rows to pull with their destinations. Writes the
  // operator's output Index, and sets the other rows of the output Rows to zero. INVALID_ARGUMENT:
  // an id is outside the table.
  StatusOr<ps::PsRows> Ask();
  // Predicts the rows of the next Ask from the ids in `next`. Returns the rows without
  // destinations. If the next batch has these ids, the next Ask uses the index of this call.
  // nullopt: `next` lacks the ids, or an id is outside the table. The caller must call Ask before
  // Foresee.
  std::optional<ps::PsRows> Foresee(const NextBatchHint& next);
  // Returns the index, in the operator's output Rows, of the first row that Ask returned.
  int64_t first() const { return padding_ < 0 ? 0 : 1; }
  // Returns two counts for each row of the last Ask, as [rows, 2]. The first count is the number of
  // uses of the row in the batch. The second count is the sum of `click` over these uses. `click`:
  // one number per record, 1 if the record has a click.
  std::vector<float> Counts(const exec::CommTensor& click) const;

 private:
  Status Index(std::span<const std::span<const int64_t>> ids, RowIndex* index) const;

  std::string table_;
  int64_t height_, dim_, padding_;
  std::vector<std::span<const int64_t>> ids_;
  std::vector<size_t> ids_of_record_;  // ids per record, for each element of ids_
  std::vector<int64_t*> index_;        // where to write the output Index, for each element of ids_
  std::span<float> rows_;
  RowIndex batch_;
  // Ids that Foresee copied, one vector for each element of ids_. Empty: there are no such ids.
  std::vector<std::vector<int64_t>> next_ids_;
  RowIndex next_;  // index of the rows that next_ids_ refer to
};

// Executes the prefetch_rows operators of evaluations. The nodes of destroyed plans remain in this
// object, but are not used.
class PrefetchHandler final : public exec::CommHandler {
 public:
  using Pull = std::function<void(ps::PsRows rows, exec::CommDone* done)>;
  // `pull` must complete `done` after the rows have arrived.
  PrefetchHandler(Duration timeout, Pull pull) : timeout_(timeout), pull_(std::move(pull)) {}

  StatusOr<int> Register(const exec::CommNode& node) override;
  void Start(int index, int64_t step, exec::CommDone* done) override;
  Duration timeout() const override { return timeout_; }

 private:
  const Duration timeout_;
  const Pull pull_;
  std::vector<PrefetchNode> nodes_;
};

}  // namespace tandem::trainer
