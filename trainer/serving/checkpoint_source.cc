#include "trainer/serving/checkpoint_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/tables/table_rules.h"
#include "kernels/exec/scope.h"

namespace tandem::trainer {

StatusOr<std::unique_ptr<CheckpointSource>> CheckpointSource::Load(const std::string& path) {
  auto dense = std::make_shared<DenseValues>();
  TD_ASSIGN_OR_RETURN(Checkpoint checkpoint, LoadCheckpoint(path, *dense->host));
  auto source = std::make_unique<CheckpointSource>();
  source->step_ = checkpoint.step;
  source->seed_ = checkpoint.seed;
  source->job_ = checkpoint.job;
  if (!checkpoint.tables.empty()) {
    const auto add = [&](const ps::PsTableRows& rows, const ps::PsTable& table) {
      return source->AddRows(rows, table);
    };
    TD_RETURN_IF_ERROR(ReadTableFile(checkpoint.tables, add));
  }
  dense->version = absl::StrFormat("step %d", checkpoint.step);
  dense->tensors = std::move(checkpoint.params);
  dense->tensors.merge(checkpoint.state);
  source->dense_ = std::move(dense);
  return source;
}

Status CheckpointSource::AddRows(const ps::PsTableRows& rows, const ps::PsTable& table) {
  Table& to = tables_.try_emplace(table.variable, Table{.dim = table.dim}).first->second;
  if (table.dim < 1 || table.dim != to.dim) {
    return DataLoss("table \"%s\" has rows of %d and of %d values", table.variable, to.dim,
                    table.dim);
  }
  const std::vector<size_t> begins = rows.Begins();
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    // A brief row has only its first value.
    const int64_t columns = rows.use[i].brief ? 1 : to.dim;
    const float* const weights = rows.content.data() + begins[i];
    to.rows[static_cast<int64_t>(rows.ids[i])] = to.values.size();
    to.values.insert(to.values.end(), weights, weights + columns);
    to.values.resize(to.values.size() + static_cast<size_t>(to.dim - columns), 0.0f);
  }
  return OkStatus();
}

Status CheckpointSource::ReadRows(const ServedTable& table, std::span<const int64_t> ids,
                                  std::span<float* const> to) {
  TD_REQUIRE(ids.size() == to.size());
  const auto found = tables_.find(table.name);
  if (found == tables_.end()) {
    return NotFound("the checkpoint of step %d has no rows of table \"%s\" [TD7030]", step_,
                    table.name);
  }
  const Table& rows = found->second;
  if (rows.dim != table.dim) {
    return InvalidArgument(
        "table \"%s\" of the model has rows of %d values, but those of the checkpoint have %d "
        "[TD7030]",
        table.name, table.dim, rows.dim);
  }
  TD_ASSIGN_OR_RETURN(const TableRules rules, ParseTableRules(table.rules));
  const auto dim = static_cast<size_t>(table.dim);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto row = rows.rows.find(ids[i]);
    if (row != rows.rows.end()) {
      std::copy_n(rows.values.data() + row->second, dim, to[i]);
      continue;
    }
    // As a pserver does: initial values of the columns that a new row has, then zeros.
    const size_t columns = rules.admits()                               ? 0
                           : rules.accessor == RowAccessorKind::kCommon ? dim
                                                                        : size_t{1};
    exec::FillInitial(table.name, table.init, Shape{table.height, table.dim}, seed_,
                      ids[i] * table.dim, {to[i], columns});
    std::fill(to[i] + columns, to[i] + dim, 0.0f);
  }
  return OkStatus();
}

}  // namespace tandem::trainer
