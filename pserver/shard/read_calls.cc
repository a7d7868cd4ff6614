#include "pserver/shard/read_calls.h"

#include "common/tables/row_buckets.h"
#include "pserver/tables/table_reads.h"

namespace tandem::pserver {

StatusOr<VersionedSlots> Shard::Reads::PullState(const std::string& job,
                                                 const std::vector<std::string>& variables) {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  TD_RETURN_IF_ERROR(shard_.replay_.CheckComplete());
  TD_RETURN_IF_ERROR(shard_.state_.CheckInitialised());
  TD_RETURN_IF_ERROR(CheckJob(job, shard_.state_.config.job));
  TD_ASSIGN_OR_RETURN(std::vector<SlotValues> slots,
                      shard_.state_.params->Slots(variables, shard_.migrations_.moves()));
  return VersionedSlots{.version = shard_.state_.version, .slots = std::move(slots)};
}

StatusOr<TablePage> Shard::Reads::PullTable(const std::string& job, const std::string& variable,
                                            int bucket, bool slots, uint64_t bytes_max, int end) {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  TD_RETURN_IF_ERROR(shard_.state_.CheckInitialised());
  TD_RETURN_IF_ERROR(CheckJob(job, shard_.state_.config.job));
  const int table = shard_.state_.params->tables().Find(variable);
  if (table < 0) return NotFound("this server has no table \"%s\" [TD4034]", variable);
  for (int b = bucket; b < end; ++b) {
    if (!shard_.state_.Serves(b)) return OutOfRange("row bucket %d is not on this server now", b);
  }
  TD_ASSIGN_OR_RETURN(TablePage page, TableReads(shard_.state_.params->tables().table(table))
                                          .Page(bucket, slots, bytes_max, shard_.state_.version,
                                                end == 0 ? kRowBuckets : end));
  page.version = shard_.state_.version;
  return page;
}

StatusOr<TableChanges> Shard::Reads::ReadChanges(const ChangesQuery& query) {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  if (!shard_.state_.initialised()) {
    return Unavailable("the parameters of this server are not initialised yet");
  }
  TD_RETURN_IF_ERROR(CheckJob(query.job, shard_.state_.config.job));
  return shard_.change_reader_.Read(query);
}

StatusOr<size_t> Shard::Reads::CountRows(const std::string& job,
                                         const std::vector<PullRows>& rows) {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  TD_RETURN_IF_ERROR(shard_.replay_.CheckComplete());
  TD_RETURN_IF_ERROR(shard_.state_.CheckInitialised());
  TD_RETURN_IF_ERROR(CheckJob(job, shard_.state_.config.job));
  SparseTables& tables = shard_.state_.params->tables();
  size_t count = 0;
  for (const PullRows& r : rows) {
    TD_RETURN_IF_ERROR(tables.CheckRows(r));
    TD_ASSIGN_OR_RETURN(const size_t found,
                        TableReads(tables.table(tables.Find(r.variable))).CountRows(r.ids));
    count += found;
  }
  return count;
}

StatusOr<size_t> Shard::Reads::CountTable(const std::string& job, const std::string& variable) {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  TD_RETURN_IF_ERROR(shard_.replay_.CheckComplete());
  TD_RETURN_IF_ERROR(shard_.state_.CheckInitialised());
  TD_RETURN_IF_ERROR(CheckJob(job, shard_.state_.config.job));
  SparseTables& tables = shard_.state_.params->tables();
  const int table = tables.Find(variable);
  if (table < 0) return NotFound("this server has no table \"%s\" [TD4034]", variable);
  return TableReads(tables.table(table)).rows();
}

StatusOr<std::vector<SliceSpec>> Shard::Reads::Slices() {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  TD_RETURN_IF_ERROR(shard_.state_.CheckInitialised());
  const DenseTable& slices = shard_.state_.params->slices();
  std::vector<SliceSpec> specs;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices.served(static_cast<int>(i))) specs.push_back(slices.spec(static_cast<int>(i)));
  }
  return specs;
}

StatusOr<SliceSnapshot> Shard::Reads::ReadSlice(const std::string& variable, int64_t offset) {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  TD_RETURN_IF_ERROR(shard_.state_.CheckInitialised());
  DenseTable& slices = shard_.state_.params->slices();
  TD_ASSIGN_OR_RETURN(const int index, slices.index().Find(variable, offset));
  return slices.Snapshot(index);
}

StatusOr<SparseTable*> Shard::Reads::TableNamed(const std::string& variable) {
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  TD_RETURN_IF_ERROR(shard_.state_.CheckInitialised());
  SparseTables& tables = shard_.state_.params->tables();
  const int table = tables.Find(variable);
  if (table < 0) return NotFound("this server has no table \"%s\" [TD4034]", variable);
  return &tables.table(table);
}

StatusOr<TablePage> Shard::Reads::ReadRows(const std::string& variable,
                                           std::span<const uint64_t> ids) {
  MutexLock lock(shard_.mu_);
  TD_ASSIGN_OR_RETURN(SparseTable* const table, TableNamed(variable));
  return TableReads(*table).ReadRows(ids, shard_.state_.version);
}

StatusOr<std::vector<std::pair<std::string, float>>> Shard::Reads::ReadScalars(
    const std::string& variable) {
  MutexLock lock(shard_.mu_);
  TD_ASSIGN_OR_RETURN(SparseTable* const table, TableNamed(variable));
  return table->scalars();
}

uint64_t Shard::Reads::version() {
  MutexLock lock(shard_.mu_);
  return shard_.state_.version;
}

}  // namespace tandem::pserver
