#include "pserver/client/row_cache.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::ps {
namespace {

constexpr size_t kNobody = SIZE_MAX;  // row without an owner

}  // namespace

size_t RowCache::BytesOfRow(int64_t dim) {
  return static_cast<size_t>(dim) * sizeof(float) + sizeof(Row) + kRowIndexBytes;
}

StatusOr<std::unique_ptr<RowCache>> RowCache::Make(Options options,
                                                   const std::vector<PsTable>& tables) {
  if (options.bytes == 0 || tables.empty()) return nullptr;
  std::vector<int64_t> dims;
  for (const PsTable& table : tables) {
    dims.push_back(table.dim);
    if (options.bytes / tables.size() >= BytesOfRow(table.dim)) continue;
    return InvalidArgument(
        "row_cache_mb leaves %d bytes for each of %d tables, but one row of table %s needs %d "
        "bytes "
        "[TD1104]; hint: increase row_cache_mb",
        options.bytes / tables.size(), tables.size(), table.variable, BytesOfRow(table.dim));
  }
  return std::make_unique<RowCache>(options, dims);
}

RowCache::RowCache(Options options, const std::vector<int64_t>& dims) : options_(options) {
  for (const int64_t dim : dims) {
    Table& table = tables_.emplace_back();
    table.dim = static_cast<size_t>(dim);
    table.rows_max = std::min<size_t>(options.bytes / dims.size() / BytesOfRow(dim), UINT32_MAX);
    CHECK(table.rows_max > 0) << options.bytes << " bytes for rows of " << BytesOfRow(dim);
  }
}

std::vector<size_t> RowCache::Take(size_t index, size_t server, uint64_t version,
                                   std::span<const uint64_t> ids, std::span<float* const> to) {
  std::vector<size_t> missing;
  MutexLock lock(mu_);
  TD_REQUIRE(index < tables_.size() && ids.size() == to.size());
  Table& table = tables_[index];
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = table.index.find(ids[i]);
    Row* const row = found == table.index.end() ? nullptr : &table.rows[found->second];
    if (row == nullptr || row->server != server || row->version > version ||
        version - row->version > options_.versions_max) {
      missing.push_back(i);
      continue;
    }
    row->used = true;
    std::copy_n(table.values.data() + found->second * table.dim, table.dim, to[i]);
  }
  counts_.hits += ids.size() - missing.size();
  counts_.misses += missing.size();
  return missing;
}

uint32_t RowCache::MakeRoom(Table& table) {
  if (table.rows.size() < table.rows_max) {
    table.rows.push_back({0, 0, kNobody, false});
    table.values.resize(table.rows.size() * table.dim);
    return static_cast<uint32_t>(table.rows.size() - 1);
  }
  while (true) {
    const size_t at = table.hand;
    table.hand = at + 1 == table.rows.size() ? 0 : at + 1;
    if (table.rows[at].used) {
      table.rows[at].used = false;
      continue;
    }
    table.index.erase(table.rows[at].id);
    return static_cast<uint32_t>(at);
  }
}

void RowCache::Put(size_t index, size_t server, uint64_t version, std::span<const uint64_t> ids,
                   std::span<float* const> values) {
  MutexLock lock(mu_);
  TD_REQUIRE(index < tables_.size() && ids.size() == values.size());
  Table& table = tables_[index];
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = table.index.find(ids[i]);
    uint32_t at = 0;
    if (found == table.index.end()) {
      at = MakeRoom(table);
      table.index[ids[i]] = at;
    } else {
      at = found->second;
      if (table.rows[at].server == server && table.rows[at].version > version) continue;
    }
    table.rows[at] = {ids[i], version, server, table.rows[at].used};
    std::copy_n(values[i], table.dim, table.values.data() + at * table.dim);
  }
}

void RowCache::Forget(size_t server) {
  MutexLock lock(mu_);
  for (Table& table : tables_) {
    for (Row& row : table.rows) {
      if (row.server == server) row.server = kNobody;
    }
  }
}

RowCache::Counts RowCache::counts() const {
  MutexLock lock(mu_);
  return counts_;
}

}  // namespace tandem::ps
