#include "pserver/shard/pull_reader.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

Status PullReader::Check(const PullQuery& query) const {
  TD_REQUIRE(state_.params != nullptr);
  for (const PullRange& range : query.ranges) {
    TD_RETURN_IF_ERROR(state_.params->FindRange(range, migrations_.moves()).status());
  }
  for (const PullRows& rows : query.rows)
    TD_RETURN_IF_ERROR(state_.params->tables().CheckRows(rows));
  return OkStatus();
}

Status PullReader::CheckHere(const PullQuery& query) const {
  for (const PullRange& range : query.ranges) {
    TD_RETURN_IF_ERROR(state_.params->FindRange(range, migrations_.moves()).status());
  }
  return CheckRowsHere(query);
}

Status PullReader::CheckRowsHere(const PullQuery& query) const {
  if (query.rows.empty() || !migrations_.GaveAllRows()) return OkStatus();
  return OutOfRange("this server has no rows, because all its rows moved to other servers");
}

bool PullReader::CanAnswer(const PullQuery& query) const {
  return state_.initialised() && state_.version >= query.min_version &&
         (query.min_step == 0 || state_.trainers.Behind(query.min_step).empty());
}

StatusOr<PullResult> PullReader::Read(const PullQuery& query) {
  TD_REQUIRE(CanAnswer(query));
  PullResult result{.version = query.at_version.value_or(state_.version),
                    .server_incarnation = state_.incarnation(),
                    .slices = {},
                    .update = state_.update};
  if (query.version_only) return result;
  const bool kept = result.version + 1 == state_.version && state_.has_previous;
  if (IsPrevious(result) && !kept) {
    return FailedPrecondition(
        "version %d of the parameters was requested, but this server has version %d",
        result.version, state_.version);
  }
  TD_RETURN_IF_ERROR(AddSlices(query, result));
  for (const PullRows& rows : query.rows) TD_RETURN_IF_ERROR(AddRows(rows, result));
  counters_.pulls.Add(1);
  if (!query.observer) state_.trainers[query.caller.trainer].pulled = state_.version;
  return result;
}

Status PullReader::AddSlices(const PullQuery& query, PullResult& result) {
  const DenseTable& slices = state_.params->slices();
  if (query.ranges.empty() && query.rows.empty()) {
    for (int i = 0; i < static_cast<int>(slices.size()); ++i) {
      if (!slices.served(i)) continue;
      const SliceSpec& spec = slices.spec(i);
      TD_RETURN_IF_ERROR(AddSlice(query, i, spec.offset, spec.numel, result));
    }
  }
  for (const PullRange& range : query.ranges) {
    TD_ASSIGN_OR_RETURN(const int slice, state_.params->FindRange(range, migrations_.moves()));
    TD_RETURN_IF_ERROR(AddSlice(query, slice, range.offset, range.numel, result));
  }
  return OkStatus();
}

Status PullReader::AddSlice(const PullQuery& query, int slice, int64_t offset, int64_t numel,
                            PullResult& result) {
  DenseTable& slices = state_.params->slices();
  const SliceSpec& spec = slices.spec(slice);
  TD_REQUIRE(offset >= spec.offset && offset + numel <= spec.offset + spec.numel);
  Buffer values = slices.Previous(slice);
  if (IsPrevious(result) && values == nullptr) {
    return FailedPrecondition("pull: the values of %s of version %d are no longer on this server",
                              spec.variable, result.version);
  }
  if (!IsPrevious(result)) {
    TD_ASSIGN_OR_RETURN(values, slices.Params(slice));
  }
  result.slices.push_back({.variable = spec.variable,
                           .offset = offset,
                           .numel = numel,
                           .values = std::move(values),
                           .first = static_cast<size_t>(offset - spec.offset)});
  counters_.pull_bytes.Add(static_cast<double>(numel) * sizeof(float));
  if (state_.config.delay_compensation > 0 && !query.observer) {
    slices.Pulled(slice, query.caller.trainer, result.slices.back().values);
  }
  return OkStatus();
}

Status PullReader::AddRows(const PullRows& rows, PullResult& result) {
  // Checks the rows again, because they may have moved to another server while the pull waited.
  if (!migrations_.moves().empty()) TD_RETURN_IF_ERROR(state_.params->tables().CheckRows(rows));
  TD_ASSIGN_OR_RETURN(PulledSlice values, state_.params->Rows(rows, IsPrevious(result)));
  counters_.pull_bytes.Add(static_cast<double>(values.numel) * sizeof(float));
  result.slices.push_back(std::move(values));
  // A pull may also move rows between memory and disk, so the metrics of tables are updated.
  if (state_.options.table_memory.bytes != 0) state_.ShowTables();
  return OkStatus();
}

}  // namespace tandem::pserver
