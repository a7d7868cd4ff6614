#include "pserver/shard/change_reader.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "common/base/require.h"
#include "pserver/tables/table_reads.h"

namespace tandem::pserver {
namespace {

// Limits for one reply, which is read under the shard's lock.
constexpr size_t kChangedRowsMax = 8192;
constexpr size_t kBucketsMax = 64;
// Rows of whole buckets that are looked at, also those that the filter of the reader leaves out.
constexpr size_t kExaminedRowsMax = 8192;

}  // namespace

StatusOr<TableChanges> ChangeReader::Read(const ChangesQuery& query) {
  TD_REQUIRE(state_.initialised() && query.bytes_max > 0);
  const int found = state_.params->tables().Find(query.table);
  if (found < 0) return NotFound("this server has no table \"%s\" [TD4034]", query.table);
  SparseTable& table = state_.params->tables().table(found);
  if (!TableReads(table).changed().remembers()) {
    if (state_.options.table_memory.changed_rows == 0) {
      return FailedPrecondition(
          "this server does not record changes of tables [TD4036]; hint: start it with "
          "--durability=logged");
    }
    return Unimplemented(
        "the optimizer of table %s also changes rows without a gradient, so the table cannot be "
        "followed [TD4036]; hint: set optimizer.lazy_mode",
        query.table);
  }
  if (query.after && std::max(query.after->version, query.after->until) > state_.version) {
    return Unavailable("this server has version %d, and the reader has version %d already",
                       state_.version, std::max(query.after->version, query.after->until));
  }
  TableChanges changes{.version = state_.version,
                       .number = state_.journal.settled_number(),
                       .up_to = {.version = state_.version},
                       .dim = table.spec().dim()};
  AddServed(table, changes);
  if (query.after) {
    TD_RETURN_IF_ERROR(AddBuckets(query, table, changes));
    TD_RETURN_IF_ERROR(AddChanged(query, table, changes));
  }
  return changes;
}

Status ChangeReader::AddBuckets(const ChangesQuery& query, SparseTable& table,
                                TableChanges& changes) const {
  RowValues rows;
  size_t examined = 0;
  for (const int bucket : query.buckets) {
    if (rows.content.size() * sizeof(float) >= query.bytes_max || examined >= kExaminedRowsMax ||
        changes.buckets.size() >= kBucketsMax) {
      break;
    }
    if (!table.buckets().serves(bucket)) continue;
    TD_ASSIGN_OR_RETURN(const size_t looked_at,
                        TableReads(table).AppendBucket(bucket, query.score_min, rows));
    examined += looked_at;
    changes.buckets.push_back(bucket);
  }
  changes.ids = std::move(rows.ids);
  changes.values = std::move(rows.content);
  return OkStatus();
}

Status ChangeReader::AddChanged(const ChangesQuery& query, SparseTable& table,
                                TableChanges& changes) const {
  const size_t row_bytes = sizeof(uint64_t) + static_cast<size_t>(changes.dim) * sizeof(float);
  const size_t wanted = std::clamp<size_t>(query.bytes_max / row_bytes, 1, kChangedRowsMax);
  std::optional<ChangedRows::Result> changed =
      TableReads(table).changed().After(*query.after, state_.version, wanted);
  if (!changed) {
    // The rows of the added buckets are valid for a reader that begins again at this version.
    changes.restart = true;
    return OkStatus();
  }
  std::bitset<kRowBuckets> added;
  for (const int bucket : changes.buckets) added.set(static_cast<size_t>(bucket));
  std::erase_if(changed->ids, [&](uint64_t id) {
    const int bucket = RowBucket(id);
    return added[static_cast<size_t>(bucket)] || !table.buckets().serves(bucket) ||
           bucket < query.begin || bucket >= query.end;
  });
  changes.up_to = changed->up_to;
  return TableReads(table).ReadExisting(changed->ids, query.score_min, changes);
}

void ChangeReader::AddServed(const SparseTable& table, TableChanges& changes) const {
  const BucketMap& map = migrations_.moves().map;
  for (int bucket = 0; bucket < kRowBuckets; ++bucket) {
    if (!table.buckets().serves(bucket)) continue;
    const uint64_t epoch = map.epoch(bucket);
    if (!changes.served.empty() && changes.served.back().end == bucket &&
        changes.served.back().epoch == epoch) {
      ++changes.served.back().end;
    } else {
      changes.served.push_back({bucket, bucket + 1, epoch});
    }
  }
}

}  // namespace tandem::pserver
