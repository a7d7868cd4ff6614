// The tables of a trainer in pserver mode: parameters with sparse gradients, of which the servers
// hold the rows. Before a step the rows of its batch come from there, behind it their gradients are
// pushed. The trainer keeps a whole copy, as Fleet's is_sparse does, in which those rows are
// brought up to date; of tables that are is_distributed it has the rows of the batch alone.
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
#include "trainer/ps/row_prefetch.h"
#include "trainer/ps/row_prefetcher.h"

namespace tandem {

// The optimizer as the client speaks of it. INVALID_ARGUMENT for an attribute that is a list.
StatusOr<PsOptimizer> ToPsOptimizer(const OptimizerSpec& spec);

// Not thread-safe.
class PsTables {
 public:
  // Takes those of `grads` that can be tables with this optimizer out of them and puts their
  // pull_rows and push_rows into the program. `log`: says what it found.
  static StatusOr<PsTables> Take(Program& program, const OptimizerSpec& optimizer, bool log,
                                 std::vector<ParamGrad>& grads);

  bool empty() const { return tables_.empty(); }
  size_t size() const { return tables_.size(); }

  // ---- The plan
  Status RegisterPull(const CommNode& node);
  Status RegisterPush(const CommNode& node);
  // The rows of the batch, each once. INVALID_ARGUMENT for an id that is no row.
  StatusOr<std::vector<PsRows>> Batch();
  // Looks which rows the next batch has, where that is known and all tables are distributed. Behind
  // Batch.
  void Foresee(const NextBatchHint& next);
  // Asks for those that were foreseen last, if any were, as they are in `version`.
  void AskAhead(PsClient& client, uint64_t version);
  // RowPrefetcher::Give
  bool GiveAhead(uint64_t version, const std::vector<PsRows>& rows, RowPrefetcher::Done done);
  void DropAhead() { ahead_ = {}; }
  // The gradient of the table whose push_rows was registered as number `i`, of the last Batch.
  StatusOr<RowSet> CopyGradient(size_t i) const;
  std::vector<PsConstRows> View(const std::vector<RowSet>& rows) const;

  // ---- Parameters and optimizer slots
  std::vector<PsTable> Definitions(uint64_t seed) const;
  // Name of a table that lies on the servers alone; "" when there is none.
  std::string Distributed() const;
  // Rows that are otherwise than at first, from the scope and from a checkpoint's slots; their
  // slots of one number.
  StatusOr<std::vector<PsTableRows>> Rows(const Scope& scope, const TensorMap& state,
                                          uint64_t seed) const;
  std::vector<PsSlot> Scalars(const TensorMap& state) const;
  // Brings the copies of the tables in the scope up to date once the servers' version is at least
  // `version`.
  Status Gather(PsClient& client, uint64_t version, Scope& scope) const;
  // Writes the rows of distributed tables to a file (trainer/ps/table_file.h) once the servers'
  // version is at least `version`.
  Status Write(PsClient& client, uint64_t version, const std::string& path) const;
  // Adds the slots of rows, as whole tensors, to `state`.
  Status AddState(PsClient& client, Device& device, TensorMap& state) const;
  // Asks the servers what they hold of them; AddCounts tells. Where a server does not answer, a
  // warning says so, and there are no counts.
  void Count(PsClient& client);
  void AddCounts(std::map<std::string, double>* counts) const;

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
    std::string rules;  // TableRules
    // Of the plan:
    std::optional<PrefetchNode> prefetch;  // distributed
    std::vector<int64_t> batch;            // ids of its rows, ascending
    float* weights = nullptr;
    std::vector<std::span<const int64_t>> ids;
    RowIndex index;  // of them, not distributed
    std::span<const int64_t> rows;
    const float* values = nullptr;
    std::optional<CommTensor> click;  // of a table with counts
  };

  StatusOr<Table*> Find(const std::string& name);
  static StatusOr<std::vector<Slot>> SlotsOf(const OptimizerSpec& optimizer,
                                             const std::string& table);

  std::vector<Table> tables_;
  std::vector<PsRows> foreseen_;
  RowPrefetcher ahead_;
  int64_t given_ahead_ = 0;  // times
  std::map<std::string, double> counts_;
};

}  // namespace tandem
