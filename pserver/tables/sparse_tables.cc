#include "pserver/tables/sparse_tables.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

std::vector<double> ShareMemory(const std::vector<double>& bytes_max, double bytes) {
  std::vector<size_t> order(bytes_max.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return bytes_max[a] < bytes_max[b]; });
  std::vector<double> shares(bytes_max.size());
  for (size_t i = 0; i < order.size(); ++i) {
    shares[order[i]] = std::min(bytes_max[order[i]], bytes / static_cast<double>(order.size() - i));
    bytes -= shares[order[i]];
  }
  return shares;
}

StatusOr<std::unique_ptr<SparseTables>> SparseTables::Make(const ShardConfig& config,
                                                           const exec::Backend& backend,
                                                           Device& device,
                                                           const TableMemory& memory,
                                                           ForkJoin* workers) {
  auto all = std::make_unique<SparseTables>();
  for (const TableSpec& spec : config.tables) {
    auto table =
        SparseTable::Make(spec, config.optimizer, backend, device, workers, memory.changed_rows);
    if (!table.ok()) return Annotate(table.status(), "table " + spec.variable);
    all->index_[spec.variable] = static_cast<int>(all->tables_.size());
    all->tables_.push_back(*std::move(table));
  }
  if (memory.bytes != 0)
    TD_RETURN_IF_ERROR(all->Limit(memory, config.mode == UpdatePolicy::kASync));
  return all;
}

Status SparseTables::Limit(const TableMemory& memory, bool may_get_all) {
  TD_REQUIRE(memory.cold != nullptr);
  std::vector<double> bytes_max;
  for (const auto& table : tables_) bytes_max.push_back(table->bytes_max(may_get_all));
  const std::vector<double> shares = ShareMemory(bytes_max, static_cast<double>(memory.bytes));
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (shares[i] >= bytes_max[i]) continue;  // the share has room for all rows of the table
    TD_RETURN_IF_ERROR(tables_[i]->Limit(*memory.cold, static_cast<uint64_t>(shares[i])));
  }
  return OkStatus();
}

size_t SparseTables::rows() const {
  size_t rows = 0;
  for (const auto& table : tables_) rows += table->rows();
  return rows;
}

int SparseTables::Find(const std::string& variable) const {
  const auto it = index_.find(variable);
  return it == index_.end() ? -1 : it->second;
}

void SparseTables::Keep(int bucket, bool served) {
  for (const auto& table : tables_) table->Keep(bucket, served);
}

Status SparseTables::DropBucket(int bucket) {
  for (const auto& table : tables_) TD_RETURN_IF_ERROR(table->DropBucket(bucket));
  return OkStatus();
}

Status SparseTables::CheckRows(const PullRows& rows) const {
  const int found = Find(rows.variable);
  if (found < 0) return NotFound("this server has no table \"%s\" [TD4034]", rows.variable);
  if (rows.ids.size() > kRowsOfMessageMax) {
    return InvalidArgument(
        "cannot pull %d rows of table %s at once, expected at most %d rows per message",
        rows.ids.size(), rows.variable, kRowsOfMessageMax);
  }
  return table(found).buckets().CheckServed(rows.ids, /*ascending=*/false);
}

Status SparseTables::SetScalars(std::span<const BucketMigration::Scalar> scalars) {
  for (const BucketMigration::Scalar& s : scalars) {
    const int found = Find(s.variable);
    if (found < 0) return NotFound("there is no table \"%s\"", s.variable);
    TD_RETURN_IF_ERROR(table(found).SetScalar(s.slot, s.value));
  }
  return OkStatus();
}

Status SparseTables::SetPrevious(std::span<const RowValues> previous) {
  for (const RowValues& rows : previous) {
    const int found = Find(rows.variable);
    if (found < 0) return NotFound("there is no table \"%s\"", rows.variable);
    const auto dim = static_cast<size_t>(table(found).spec().dim());
    if (rows.content.size() != rows.ids.size() * dim) {
      return InvalidArgument(
          "the request has %d values in total for %d previous rows of table %s, expected %d",
          rows.content.size(), rows.ids.size(), rows.variable, rows.ids.size() * dim);
    }
  }
  for (const RowValues& rows : previous) table(Find(rows.variable)).SetPrevious(rows);
  return OkStatus();
}

Status SparseTables::Begin(uint64_t version, int64_t event_time_ms, bool keep_previous) {
  for (const auto& table : tables_) {
    TD_RETURN_IF_ERROR(table->Begin(version, event_time_ms, keep_previous));
  }
  return OkStatus();
}

Status SparseTables::ApplyStep(const TableGradients& gathered, std::span<const int> ranks,
                               float learning_rate) {
  TD_REQUIRE(std::ranges::is_sorted(ranks) && gathered.items() == tables_.size());
  for (size_t i = 0; i < tables_.size(); ++i) {
    std::vector<RowsGradient> gradients;
    for (const int rank : ranks) {
      gradients.push_back(gathered.Get(static_cast<int>(i), rank).view());
    }
    TD_RETURN_IF_ERROR(tables_[i]->Apply(gradients, learning_rate));
  }
  return OkStatus();
}

}  // namespace tandem::pserver
