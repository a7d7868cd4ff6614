// The tables of a trainer in pserver mode: parameters with sparse gradients, with rows stored on
// the servers. Before a step the trainer pulls the rows of its batch; after the step it pushes
// their gradients. The trainer keeps a whole copy, like Fleet's is_sparse, and updates those rows
// in it. For is_distributed tables it has only the rows of the batch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "kernels/exec/comm.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"
#include "pserver/client/client.h"
#include "trainer/files/safetensors.h"
#include "trainer/ps/async_communicator.h"
#include "trainer/ps/ps_counts.h"
#include "trainer/ps/row_prefetch.h"
#include "trainer/ps/row_prefetcher.h"

namespace tandem::trainer {

// Converts the optimizer to the client's type. INVALID_ARGUMENT: an attribute is a list.
StatusOr<ps::PsOptimizer> ToPsOptimizer(const OptimizerSpec& spec);

// Not thread-safe.
class PsTables {
 public:
  // Removes the gradients of `grads` that can be tables with this optimizer. Adds their pull_rows
  // and push_rows to the program. `log`: log the tables found.
  static StatusOr<PsTables> Take(Program& program, const OptimizerSpec& optimizer, bool log,
                                 std::vector<ParamGrad>& grads);

  bool empty() const { return tables_.empty(); }
  size_t size() const { return tables_.size(); }

  // ---- The plan ---------------------------------------------------------------------------------
  Status RegisterPull(const CommNode& node);
  Status RegisterPush(const CommNode& node);
  // The rows of the batch, each once. INVALID_ARGUMENT: an id is outside its table.
  StatusOr<std::vector<ps::PsRows>> Batch();
  // Determines the rows of the next batch if its data is known and all tables are distributed. Call
  // it after Batch.
  void Foresee(const NextBatchHint& next);
  // Prefetches the rows of the last Foresee, if there are any, at version `version`.
  void AskAhead(ps::PsClient& client, uint64_t version);
  // Like RowPrefetcher::Give.
  bool GiveAhead(uint64_t version, const std::vector<ps::PsRows>& rows, RowPrefetcher::Done done);
  void DropAhead() { ahead_ = {}; }
  // Copies the gradient of the last Batch for the table with push_rows number `i`.
  StatusOr<RowSet> CopyGradient(size_t i) const;
  std::vector<ps::PsConstRows> View(const std::vector<RowSet>& rows) const;

  // ---- Parameters and optimizer slots -----------------------------------------------------------
  std::vector<ps::PsTable> Definitions(uint64_t seed) const;
  // Name of a table that is stored only on the servers; "": there is none.
  std::string Distributed() const;
  // Rows: the rows that differ from their initial values, from `scope`, and their slots from
  // `state` of a checkpoint. Scalars: the slots that are one number per table.
  StatusOr<std::vector<ps::PsTableRows>> Rows(const Scope& scope, const TensorMap& state,
                                              uint64_t seed) const;
  std::vector<ps::PsSlot> Scalars(const TensorMap& state) const;
  // Updates the tables' copies in the scope once the servers' version is at least `version`.
  Status Gather(ps::PsClient& client, uint64_t version, Scope& scope) const;
  // Writes the rows of distributed tables to a file (trainer/ps/table_file.h) once the servers'
  // version is at least `version`.
  Status Write(ps::PsClient& client, uint64_t version, const std::string& path) const;
  // Adds the rows' slots to `state`, as whole tensors.
  Status AddState(ps::PsClient& client, Device& device, TensorMap& state) const;
  // Requests the servers' counters of the tables; AddCounts returns them. If a server does not
  // reply, it logs a warning, and there are no counters.
  void Count(ps::PsClient& client);
  void AddCounts(PsCounts* counts) const;

 private:
  struct Slot {
    std::string name;
    bool scalar = false;
    float start = 0;
  };
  struct Table {
    std::string name;
    Shape shape;  // [height, dim]
    Init init;
    std::vector<Slot> slots;
    bool distributed = false;
    std::string rules;  // serialized TableRules
    // Set by the plan:
    std::optional<PrefetchNode> prefetch;  // for a distributed table
    std::vector<int64_t> batch;            // ids of the batch's rows, ascending
    float* weights = nullptr;
    std::vector<std::span<const int64_t>> ids;
    RowIndex index;  // rows of `ids`, if not distributed
    std::span<const int64_t> rows;
    const float* values = nullptr;
    std::optional<CommTensor> click;  // for a table with counts
  };

  StatusOr<Table*> Find(const std::string& name);
  static StatusOr<std::vector<Slot>> SlotsOf(const OptimizerSpec& optimizer,
                                             const std::string& table);

  std::vector<Table> tables_;
  std::vector<ps::PsRows> foreseen_;
  RowPrefetcher ahead_;
  int64_t given_ahead_ = 0;  // batches with prefetched rows
  PsCounts counts_;          // rows at the last Count
};

}  // namespace tandem::trainer
