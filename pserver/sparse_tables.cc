#include "pserver/sparse_tables.h"

#include <utility>

namespace tandem {

StatusOr<std::unique_ptr<SparseTables>> SparseTables::Make(const ShardConfig& config,
                                                           const Backend& backend, Device& device) {
  auto all = std::make_unique<SparseTables>();
  all->gathered_.assign(config.trainers, 0);
  for (const TableSpec& spec : config.tables) {
    auto table = SparseTable::Make(spec, config.optimizer, backend, device);
    if (!table.ok()) return Annotate(table.status(), "table " + spec.variable);
    all->index_[spec.variable] = static_cast<int>(all->tables_.size());
    all->tables_.push_back({*std::move(table), {}, {}});
    all->tables_.back().gathered.resize(config.trainers);
    all->tables_.back().has.resize(config.trainers);
  }
  return all;
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

void SparseTables::Begin(uint64_t version, bool keep_previous) {
  for (Table& t : tables_) t.table->Begin(version, keep_previous);
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

}  // namespace tandem
