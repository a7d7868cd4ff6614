#include "pserver/tables/sparse_tables.h"

#include <algorithm>
#include <numeric>
#include <utility>

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
                                                           const Backend& backend, Device& device,
                                                           const TableMemory& memory,
                                                           ForkJoin* workers) {
  auto all = std::make_unique<SparseTables>();
  all->gathered_.assign(config.trainers, 0);
  for (const TableSpec& spec : config.tables) {
    auto table = SparseTable::Make(spec, config.optimizer, backend, device, workers);
    if (!table.ok()) return Annotate(table.status(), "table " + spec.variable);
    all->index_[spec.variable] = static_cast<int>(all->tables_.size());
    all->tables_.push_back({*std::move(table), {}, {}});
    all->tables_.back().gathered.resize(config.trainers);
    all->tables_.back().has.resize(config.trainers);
  }
  if (memory.bytes != 0) TD_RETURN_IF_ERROR(all->Limit(memory, config.mode == ShardMode::kASync));
  return all;
}

Status SparseTables::Limit(const TableMemory& memory, bool rows_come) {
  std::vector<double> bytes_max;
  for (const Table& t : tables_) bytes_max.push_back(t.table->bytes_max(rows_come));
  const std::vector<double> shares = ShareMemory(bytes_max, static_cast<double>(memory.bytes));
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (shares[i] >= bytes_max[i]) continue;  // all rows of the table fit
    TD_RETURN_IF_ERROR(tables_[i].table->Limit(*memory.cold, static_cast<uint64_t>(shares[i])));
  }
  return OkStatus();
}

RowValues SparseTable::Previous() const {
  RowValues rows{.variable = spec_.variable};
  const auto add = [&](uint64_t id, const float* weights) {
    rows.ids.push_back(id);
    rows.content.insert(rows.content.end(), weights, weights + dim_);
  };
  for (const auto& [id, weights] : previous_removed_) add(id, weights.data());
  const size_t count = previous_.size() / static_cast<size_t>(dim_);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t id =
        idle_ == UntouchedRowPolicy::kFade ? store_.Id(static_cast<uint32_t>(i)) : previous_ids_[i];
    if (!previous_removed_.contains(id)) add(id, previous_.data() + i * static_cast<size_t>(dim_));
  }
  return rows;
}

void SparseTable::SetPrevious(const RowValues& rows) {
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    const float* const weights = rows.content.data() + i * static_cast<size_t>(dim_);
    previous_removed_[rows.ids[i]] = {weights, weights + dim_};
  }
}

size_t SparseTables::rows() const {
  size_t rows = 0;
  for (const Table& t : tables_) rows += t.table->rows();
  return rows;
}

int SparseTables::Find(const std::string& variable) const {
  const auto it = index_.find(variable);
  return it == index_.end() ? -1 : it->second;
}

void SparseTables::Gather(int i, int trainer, PushedRows rows) {
  CHECK(!tables_[i].has[trainer]);
  tables_[i].gathered[trainer] = std::move(rows);
  tables_[i].has[trainer] = true;
  ++gathered_[trainer];
}

void SparseTables::Drop(int trainer) {
  for (Table& t : tables_) {
    t.gathered[trainer] = {};
    t.has[trainer] = false;
  }
  gathered_[trainer] = 0;
}

Status SparseTables::Begin(uint64_t version, bool keep_previous) {
  for (Table& t : tables_) TD_RETURN_IF_ERROR(t.table->Begin(version, keep_previous));
  return OkStatus();
}

Status SparseTables::ApplyGathered(std::span<const int> ranks, float learning_rate) {
  for (Table& t : tables_) {
    std::vector<RowsGradient> gradients;
    for (const int rank : ranks) {
      CHECK(t.has[rank]);
      gradients.push_back(t.gathered[rank].view());
    }
    TD_RETURN_IF_ERROR(t.table->Apply(gradients, learning_rate));
  }
  for (size_t trainer = 0; trainer < gathered_.size(); ++trainer) {
    if (gathered_[trainer] != 0) Drop(static_cast<int>(trainer));
  }
  return OkStatus();
}

}  // namespace tandem::pserver
