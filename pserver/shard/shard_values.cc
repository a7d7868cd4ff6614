// The part of Shard for values: initial values, and values other than parameters that callers read.
#include <utility>

#include "pserver/shard/shard.h"

namespace tandem::pserver {

StatusOr<bool> Shard::InitParams(const Caller& caller, uint64_t version,
                                 const std::vector<SliceValues>& params,
                                 const std::vector<SlotValues>& slots,
                                 const std::vector<RowValues>& rows) {
  Ready ready;
  Cut cut;
  std::vector<bool> before;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(CheckCaller(caller));
    if (caller.trainer != 0) {
      return FailedPrecondition("trainer %d sends initial parameters, but only trainer 0 may",
                                caller.trainer);
    }
    if (initialised()) return true;
    if (keeping_ != 0) {
      return Unavailable(
          "the initial parameters are already being written to the directory [TD4017]; hint: try "
          "again when that is done");
    }
    before = params_->which_given();
    TD_RETURN_IF_ERROR(params_->Init(version, params, slots, rows));
    version_ = version;
    if (!initialised()) return false;
    Settle();
    if (options_.keep_first) {
      TD_ASSIGN_OR_RETURN(cut, BeginSnapshot(false));
      keeping_ = cut.number;
    } else {
      WakeWaiters(ready);
    }
  }
  if (options_.keep_first) TD_RETURN_IF_ERROR(KeepFirst(std::move(cut), before));
  Run(std::move(ready));
  return true;
}

Status Shard::KeepFirst(Cut cut, const std::vector<bool>& before) {
  const uint64_t number = cut.number;
  const StatusOr<ShardSnapshot> image = CopyOf(std::move(cut))();
  const Status kept = image.ok() ? options_.keep_first(*image) : image.status();
  Ready ready;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(broken_);
    if (keeping_ != number)
      return Aborted("the server was restored while it received the initial parameters");
    keeping_ = 0;
    if (!kept.ok()) {
      params_->SetGiven(before);  // as if this message had not been received: it may be sent again
      return Annotate(kept, "cannot store the initial parameters");
    }
    WakeWaiters(ready);
  }
  Run(std::move(ready));
  return OkStatus();
}

StatusOr<std::pair<uint64_t, std::vector<SlotValues>>> Shard::PullState(
    const std::string& job, const std::vector<std::string>& variables) {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(broken_);
  TD_RETURN_IF_ERROR(Waits());
  if (!initialised())
    return FailedPrecondition("the parameters of this server are not initialised yet");
  TD_RETURN_IF_ERROR(CheckJob(job, config_.job));
  TD_ASSIGN_OR_RETURN(std::vector<SlotValues> slots, params_->Slots(variables, moves_));
  return std::make_pair(version_, std::move(slots));
}

Status Shard::AddRows(const PullRows& rows, bool previous, PullResult& result) {
  // The rows may have moved away while the pull waited.
  if (!moves_.empty()) TD_RETURN_IF_ERROR(params_->CheckRows(rows));
  TD_ASSIGN_OR_RETURN(PulledSlice values, params_->Rows(rows, previous));
  counters_.pull_bytes.Add(static_cast<double>(values.numel) * sizeof(float));
  result.slices.push_back(std::move(values));
  // Pulls move rows between tiers too.
  if (options_.table_memory.bytes != 0) table_metrics_->Show(params_->tables());
  return OkStatus();
}

StatusOr<TablePage> Shard::PullTable(const std::string& job, const std::string& variable,
                                     int bucket, bool slots, uint64_t bytes_max, int end) {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(broken_);
  if (!initialised())
    return FailedPrecondition("the parameters of this server are not initialised yet");
  TD_RETURN_IF_ERROR(CheckJob(job, config_.job));
  const int table = params_->tables().Find(variable);
  if (table < 0) return NotFound("this server has no table \"%s\"", variable);
  for (int b = bucket; b < end; ++b) {
    if (!Serves(b)) return OutOfRange("row bucket %d is not on this server now", b);
  }
  TD_ASSIGN_OR_RETURN(TablePage page,
                      params_->tables().table(table).Page(bucket, slots, bytes_max, version_,
                                                          end == 0 ? kRowBuckets : end));
  page.version = version_;
  return page;
}

}  // namespace tandem::pserver
