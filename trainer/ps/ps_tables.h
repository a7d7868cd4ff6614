// The tables of a trainer in pserver mode: parameters with sparse gradients, whose rows the servers
// store. Before a step the trainer pulls the rows of its batch. After the step the trainer pushes
// the gradients of these rows. The trainer also has a copy of the whole table, like Fleet's
// is_sparse, and updates the pulled rows in the copy. A trainer has no copy of an is_distributed
// table, only the rows of the batch.
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
#include "trainer/ps/row_file.h"
#include "trainer/ps/row_prefetch.h"
#include "trainer/ps/row_prefetcher.h"

namespace tandem::trainer {

// Converts the optimizer to the type that the pserver client uses. INVALID_ARGUMENT: an attribute
// is a list.
StatusOr<ps::PsOptimizer> ToPsOptimizer(const graph::OptimizerSpec& spec);

// All tables of a trainer. Not thread-safe.
class PsTables {
 public:
  // Finds the gradients in `grads` that this optimizer can update as tables, and removes them from
  // `grads`. Adds the operators pull_rows and push_rows of these tables to the program. If `log` is
  // true, logs the tables.
  static StatusOr<PsTables> Take(graph::Program& program, const graph::OptimizerSpec& optimizer,
                                 bool log, std::vector<graph::ParamGrad>& grads);

  // Rejects rules in event time, for data without event times. INVALID_ARGUMENT: a table has such
  // rules (the message names the table), or its rules are invalid.
  Status RefuseEventTimeRules() const;

  bool empty() const { return tables_.empty(); }
  size_t size() const { return tables_.size(); }

  // ---- Calls of a plan --------------------------------------------------------------------------
  Status RegisterPull(const exec::CommNode& node);
  Status RegisterPush(const exec::CommNode& node);
  // Returns the rows that the batch needs, each row once. INVALID_ARGUMENT: an id is outside its
  // table.
  StatusOr<std::vector<ps::PsRows>> Batch();
  // Determines the rows of the next batch if its data is known and all tables are distributed. The
  // caller must call Batch before Foresee.
  void Foresee(const NextBatchHint& next);
  // Prefetches the rows that the last Foresee determined, at version `version` of the parameters.
  // Does nothing if Foresee determined no rows.
  void AskAhead(ps::PsClient& client, uint64_t version);
  // Copies prefetched rows to their destinations. Returns false if the rows were not prefetched;
  // see RowPrefetcher::Give.
  bool GiveAhead(uint64_t version, const std::vector<ps::PsRows>& rows, RowPrefetcher::Done done);
  void DropAhead() { ahead_ = {}; }
  // Returns a copy of the gradient of the rows of the last Batch. `i`: number of the table, which
  // is also the number of its push_rows operator.
  StatusOr<RowSet> CopyGradient(size_t i) const;
  std::vector<ps::PsConstRows> View(const std::vector<RowSet>& rows) const;

  // ---- Parameters and optimizer slots -----------------------------------------------------------
  std::vector<ps::PsTable> Definitions(uint64_t seed) const;
  // Returns the name of one table that only the servers store; "": there is no such table.
  std::string Distributed() const;
  // Rows returns the table rows in `scope`, with their optimizer slots in `state` (the state of a
  // checkpoint), but no rows that equal their initial values. Scalars returns the slots that are
  // one number per table.
  StatusOr<std::vector<ps::PsTableRows>> Rows(const exec::Scope& scope, const TensorMap& state,
                                              uint64_t seed) const;
  std::vector<ps::PsSlot> Scalars(const TensorMap& state) const;
  // INVALID_ARGUMENT: a file is for a table that does not exist, or that another file fills.
  Status CheckFiles(const std::vector<RowFile>& files) const;
  // Returns the rows of the files, with initial optimizer slots. Blocks while it reads. Errors:
  // those of ReadRowFile. REQUIRES: CheckFiles(files) is OK.
  StatusOr<std::vector<ps::PsTableRows>> ReadFiles(const std::vector<RowFile>& files) const;
  // Blocks until the servers have version `version` or a later one. Then copies the rows of the
  // servers to the tables in the scope.
  Status Gather(ps::PsClient& client, uint64_t version, exec::Scope& scope) const;
  // Blocks until the servers have version `version` or a later one. Then writes the rows of
  // distributed tables to a file (trainer/ps/table_file.h).
  Status Write(ps::PsClient& client, uint64_t version, const std::string& path) const;
  // Adds the optimizer slots of all rows to `state`, as tensors with the shape of the whole table.
  Status AddState(ps::PsClient& client, Device& device, TensorMap& state) const;
  // Count requests the servers' counters of the tables. AddCounts sets these counters in `counts`.
  // If a server does not reply, Count logs a warning, and AddCounts leaves these counters unset.
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
    Shape shape;  // number of rows of the table, and number of values of a row
    graph::Init init;
    std::vector<Slot> slots;
    bool distributed = false;
    std::string rules;  // the rules of the table, a serialized TableRules
    // The plan sets the following fields.
    std::optional<PrefetchNode> prefetch;  // prefetch operator; set if the table is distributed
    std::vector<int64_t> batch;            // ids of the rows in the batch, ascending
    float* weights = nullptr;
    std::vector<std::span<const int64_t>> ids;
    RowIndex index;  // rows that `ids` refer to; unused if the table is distributed
    std::span<const int64_t> rows;
    const float* values = nullptr;
    std::optional<exec::CommTensor>
        click;  // clicks of the batch's records; set if clicks are counted
  };

  StatusOr<Table*> Find(const std::string& name);
  const Table* FindTable(const std::string& name) const;  // null: there is no such table
  static StatusOr<std::vector<Slot>> SlotsOf(const graph::OptimizerSpec& optimizer,
                                             const std::string& table);

  std::vector<Table> tables_;
  std::vector<ps::PsRows> foreseen_;
  RowPrefetcher ahead_;
  int64_t given_ahead_ = 0;  // number of batches whose rows were prefetched
  PsCounts counts_;          // counters of the last Count
};

}  // namespace tandem::trainer
