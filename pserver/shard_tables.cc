// The part of Shard that is about tables of rows, and about what slices and tables have in common.
// Tables count on behind the slices: index slices + i is table i.
#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "pserver/shard.h"

namespace tandem {
namespace {

std::span<const uint64_t> Ids(const Buffer& buffer, const TensorDesc& desc) {
  return {reinterpret_cast<const uint64_t*>(buffer.get()), static_cast<size_t>(desc.shape.numel())};
}

}  // namespace

StatusOr<int> Shard::FindTablePush(const PushHead& head, size_t i) {
  const std::string& name = head.slices[i].variable;
  const int table = sparse_->Find(name);
  const int64_t width = sparse_->table(table).push_width();
  const TensorDesc& ids = head.slices[i].desc;
  const auto wrong = [&](const std::string& what) {
    return InvalidArgument("trainer %d step %d: gradient of table %s: %s", head.caller.trainer,
                           head.step, name, what);
  };
  if (ids.dtype != DType::kI64 || ids.shape.rank() != 1) {
    return wrong(absl::StrFormat("row ids are %s, expected i64 of one dimension", ToString(ids)));
  }
  if (static_cast<size_t>(ids.shape[0]) > kRowsOfMessageMax) {
    return wrong(
        absl::StrFormat("%d rows in one message; at most %d", ids.shape[0], kRowsOfMessageMax));
  }
  if (i + 1 == head.slices.size() || head.slices[i + 1].variable != name) {
    return wrong("values must follow the row ids");
  }
  const TensorDesc expected{DType::kF32, {ids.shape[0], width}};
  if (!(head.slices[i + 1].desc == expected)) {
    const bool counts = width != sparse_->table(table).spec().dim();
    return wrong(absl::StrFormat("values are %s, expected %s%s", ToString(head.slices[i + 1].desc),
                                 ToString(expected),
                                 counts ? ": shows, clicks and the gradient of each row" : ""));
  }
  return static_cast<int>(table_->size()) + table;
}

Status Shard::AdmitTableRows(const PushHead& head, const PushTicket& ticket) {
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    if (!IsTable(ticket.slices[i])) continue;
    SparseTable& table = sparse_->table(ticket.slices[i] - static_cast<int>(table_->size()));
    const auto ids = Ids(ticket.buffers[i], head.slices[i].desc);
    Status status = table.CheckIds(ids, true);
    if (status.ok()) {
      status =
          table.CheckCounts({ids, reinterpret_cast<const float*>(ticket.buffers[i + 1].get())});
    }
    if (status.ok()) status = table.Prepare(ids);
    if (!status.ok()) {
      return Annotate(status,
                      absl::StrFormat("trainer %d step %d", head.caller.trainer, head.step));
    }
    ++i;  // its values
  }
  return OkStatus();
}

bool Shard::TakesTwice(int index, int trainer) const {
  if (config_.mode != ShardMode::kSync) return false;
  return IsTable(index) ? sparse_->Has(index - static_cast<int>(table_->size()), trainer)
                        : table_->Has(index, trainer);
}

void Shard::SetTables(std::unique_ptr<SparseTables> tables) {
  sparse_ = std::move(tables);
  table_gauges_.clear();
  for (size_t i = 0; i < sparse_->size(); ++i) {
    const Metrics::Labels labels = {{"table", sparse_->table(static_cast<int>(i)).spec().variable}};
    const auto gauge = [&](const char* what, const char* help) TD_NO_ANALYSIS -> Gauge& {
      return metrics_.GetGauge(std::string("tandem_pserver_table_") + what, help, labels);
    };
    table_gauges_.push_back(
        {.rows = gauge("rows", "Rows that are there"),
         .bytes = gauge("row_bytes", "Memory for rows"),
         .waiting = gauge("waiting_rows", "Rows that are not admitted yet"),
         .dropped = gauge("dropped_gradients", "Gradients of rows that were not admitted"),
         .removed = gauge("removed_rows", "Rows that the rules removed"),
         .extended = gauge("extended_rows", "Rows with all their values"),
         .cold = gauge("cold_rows", "Rows outside memory"),
         .fetched = gauge("fetched_rows", "Rows that came back into memory"),
         .written = gauge("written_rows", "Rows that were written to leave memory"),
         .read_seconds = gauge("read_seconds", "Time spent reading rows back into memory")});
  }
}

void Shard::ShowTables() {
  for (size_t i = 0; i < sparse_->size(); ++i) {
    const TableInfo info = sparse_->table(static_cast<int>(i)).Info();
    const TableGauges& gauges = table_gauges_[i];
    gauges.rows.Set(static_cast<double>(info.rows));
    gauges.bytes.Set(static_cast<double>(info.bytes));
    gauges.waiting.Set(static_cast<double>(info.waiting));
    gauges.dropped.Set(static_cast<double>(info.dropped));
    gauges.removed.Set(static_cast<double>(info.removed));
    gauges.extended.Set(static_cast<double>(info.extended));
    gauges.cold.Set(static_cast<double>(info.cold_rows));
    gauges.fetched.Set(static_cast<double>(info.fetched));
    gauges.written.Set(static_cast<double>(info.written));
    gauges.read_seconds.Set(info.read_seconds);
  }
}

bool Shard::GaveAll(int trainer) const {
  return table_->gathered(trainer) == static_cast<int>(table_->size()) &&
         (!ServesRows() || sparse_->gathered(trainer) == static_cast<int>(sparse_->size()));
}

bool Shard::CompletesStep(const PushHead& head) const {
  for (int r = 0; r < config_.trainers; ++r) {
    if (r != head.caller.trainer && !trainers_[r].completed && !GaveAll(r)) return false;
  }
  // Where none are served the step is made without the rows of its pushes.
  if (sparse_->size() != 0 && !ServesRows()) return false;
  return head.slices.size() == table_->size() + 2 * sparse_->size();
}

Status Shard::OwnIfItWaits(const PushHead& head, PushTicket& ticket) {
  if (config_.mode != ShardMode::kSync || CompletesStep(head)) return OkStatus();
  for (size_t i = 0; i < ticket.buffers.size(); ++i) {
    Buffer& buffer = ticket.buffers[i];
    if (buffer.use_count() != 0) continue;
    const size_t bytes = head.slices[i].desc.bytes();
    TD_ASSIGN_OR_RETURN(Buffer own, table_->pool().Take(bytes));
    std::memcpy(own.get(), buffer.get(), bytes);
    buffer = std::move(own);
  }
  return OkStatus();
}

void Shard::DropGathered(int trainer) {
  table_->Drop(trainer);
  sparse_->Drop(trainer);
}

void Shard::GatherPush(const PushHead& head, PushTicket& ticket) {
  const int trainer = head.caller.trainer;
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    const int index = ticket.slices[i];
    if (!IsTable(index)) {
      table_->Gather(index, trainer, std::move(ticket.buffers[i]));
      continue;
    }
    const auto count = static_cast<size_t>(head.slices[i].desc.shape[0]);
    sparse_->Gather(index - static_cast<int>(table_->size()), trainer,
                    {std::move(ticket.buffers[i]), std::move(ticket.buffers[i + 1]), count});
    ++i;
  }
}

Status Shard::ApplyPush(const PushHead& head, const PushTicket& ticket) {
  TD_RETURN_IF_ERROR(sparse_->Begin(version_, /*keep_previous=*/false));
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    const int index = ticket.slices[i];
    if (!IsTable(index)) {
      TD_RETURN_IF_ERROR(table_->Apply(
          index, Floats(ticket.buffers[i], head.slices[i].desc.shape.numel()), head.learning_rate));
      continue;
    }
    const RowsGradient gradient{Ids(ticket.buffers[i], head.slices[i].desc),
                                reinterpret_cast<const float*>(ticket.buffers[i + 1].get())};
    SparseTable& table = sparse_->table(index - static_cast<int>(table_->size()));
    TD_RETURN_IF_ERROR(table.Apply({&gradient, 1}, head.learning_rate));
    ++i;
  }
  return OkStatus();
}

StatusOr<bool> Shard::InitParams(const Caller& caller, uint64_t version,
                                 const std::vector<SliceValues>& params,
                                 const std::vector<SlotValues>& slots,
                                 const std::vector<RowValues>& rows) {
  Ready ready;
  bool whole = false;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(CheckCaller(caller));
    if (caller.trainer != 0) {
      return FailedPrecondition("trainer %d: first values come from trainer 0", caller.trainer);
    }
    if (initialised()) return true;
    const auto before = std::make_pair(has_values_, values_missing_);
    std::vector<int> where;
    for (const SliceValues& p : params) {
      TD_ASSIGN_OR_RETURN(const int slice, table_->Find(p.variable, p.offset));
      if (p.numel != table_->spec(slice).numel) {
        return InvalidArgument("first values of %s at element %d: %d elements, expected %d",
                               p.variable, p.offset, p.numel, table_->spec(slice).numel);
      }
      if (const int64_t bad = FirstNotFinite(Floats(p.values, p.numel)); bad >= 0) {
        return InvalidArgument("first values of %s: element %d is not finite", p.variable,
                               p.offset + bad);
      }
      where.push_back(slice);
    }
    for (const SlotValues& s : slots) TD_RETURN_IF_ERROR(InitSlot(s));
    TD_RETURN_IF_ERROR(InitRows(rows, version));
    for (size_t i = 0; i < params.size(); ++i) {
      TD_RETURN_IF_ERROR(table_->SetParam(where[i], Floats(params[i].values, params[i].numel)));
      if (!has_values_[where[i]]) --values_missing_;
      has_values_[where[i]] = true;
    }
    version_ = version;
    whole = initialised();
    if (whole) Settle();
    if (whole && options_.keep_first) {
      TD_ASSIGN_OR_RETURN(const ShardImage image, MakeImage(false));
      if (const Status kept = options_.keep_first(image); !kept.ok()) {
        // As if this message had not come: it may come again.
        std::tie(has_values_, values_missing_) = before;
        return Annotate(kept, "the first values could not be kept");
      }
    }
    if (whole) WakeWaiters(ready);
  }
  Run(std::move(ready));
  return whole;
}

Status Shard::InitSlot(const SlotValues& slot) {
  if (const int table = sparse_->Find(slot.variable); table >= 0) {
    if (slot.numel != 1) {
      return InvalidArgument("slot %s of table %s has %d elements; those of rows come with them",
                             slot.slot, slot.variable, slot.numel);
    }
    return sparse_->table(table).SetScalar(slot.slot, Floats(slot.values, 1)[0]);
  }
  TD_ASSIGN_OR_RETURN(const int slice, table_->Find(slot.variable, slot.offset));
  return table_->SetSlot(slice, slot.slot, Floats(slot.values, slot.numel));
}

Status Shard::InitRows(const std::vector<RowValues>& rows, uint64_t version) {
  for (const RowValues& r : rows) {
    const int table = sparse_->Find(r.variable);
    if (table < 0) return NotFound("there is no table \"%s\" here", r.variable);
    if (const int64_t bad = FirstNotFinite(r.content); bad >= 0) {
      return InvalidArgument("first values of table %s: value %d of its rows is not finite",
                             r.variable, bad);
    }
    TD_RETURN_IF_ERROR(sparse_->table(table).SetRows(r, version));
    if (!r.last) continue;
    const size_t index = table_->size() + static_cast<size_t>(table);
    if (!has_values_[index]) --values_missing_;
    has_values_[index] = true;
  }
  return OkStatus();
}

Status Shard::CheckPullRows(const PullQuery& query) const {
  for (const PullRows& rows : query.rows) {
    const int table = sparse_->Find(rows.variable);
    if (table < 0) return NotFound("there is no table \"%s\" here", rows.variable);
    if (rows.ids.size() > kRowsOfMessageMax) {
      return InvalidArgument("pull of %d rows of table %s; at most %d in one message",
                             rows.ids.size(), rows.variable, kRowsOfMessageMax);
    }
    TD_RETURN_IF_ERROR(sparse_->table(table).CheckIds(rows.ids, false));
  }
  return OkStatus();
}

Status Shard::AddRows(const PullRows& rows, bool previous, PullResult& result) {
  SparseTable& table = sparse_->table(sparse_->Find(rows.variable));
  // They may have gone while the pull waited.
  if (!moves_.empty()) TD_RETURN_IF_ERROR(table.CheckIds(rows.ids, false));
  const int64_t dim = table.spec().dim();
  const auto numel = static_cast<int64_t>(rows.ids.size()) * dim;
  TD_ASSIGN_OR_RETURN(Buffer values,
                      table_->pool().Take(static_cast<size_t>(numel) * sizeof(float)));
  TD_RETURN_IF_ERROR(
      Annotate(table.Pull(rows.ids, previous, reinterpret_cast<float*>(values.get())),
               "pull of table " + rows.variable));
  result.slices.push_back({rows.variable, 0, numel, std::move(values), 0, dim});
  counters_.pull_bytes.Add(static_cast<double>(numel) * sizeof(float));
  if (options_.table_memory.bytes != 0) ShowTables();  // pulls move rows too
  return OkStatus();
}

StatusOr<TablePage> Shard::PullTable(const std::string& job, const std::string& variable,
                                     int bucket, bool slots, uint64_t bytes_max, int end) {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(broken_);
  if (!initialised()) return FailedPrecondition("the first values are not there");
  TD_RETURN_IF_ERROR(CheckJob(job, config_.job));
  const int table = sparse_->Find(variable);
  if (table < 0) return NotFound("there is no table \"%s\" here", variable);
  for (int b = bucket; b < end; ++b) {
    if (!Serves(b)) return OutOfRange("bucket %d is not on this server, or not now", b);
  }
  TD_ASSIGN_OR_RETURN(TablePage page, sparse_->table(table).Page(bucket, slots, bytes_max, version_,
                                                                 end == 0 ? kRowBuckets : end));
  page.version = version_;
  return page;
}

}  // namespace tandem
