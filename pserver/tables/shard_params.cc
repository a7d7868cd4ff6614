#include "pserver/tables/shard_params.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/tensor/finite.h"

namespace tandem::pserver {
namespace {

std::span<const uint64_t> Ids(const PushBytes& bytes, const TensorDesc& desc) {
  return {reinterpret_cast<const uint64_t*>(bytes.data()), static_cast<size_t>(desc.shape.numel())};
}

}  // namespace

StatusOr<std::unique_ptr<ShardParams>> ShardParams::Make(const ShardConfig& config,
                                                         const Place& place) {
  TD_ASSIGN_OR_RETURN(auto tables, SparseTables::Make(config, place.row_backend, place.row_device,
                                                      place.table_memory, place.workers));
  TD_ASSIGN_OR_RETURN(auto slices, DenseTable::Make(config, place.slice_backend, place.slice_device,
                                                    place.arena, place.workers));
  return std::unique_ptr<ShardParams>(
      new ShardParams(config, std::move(slices), std::move(tables)));
}

ShardParams::ShardParams(const ShardConfig& config, std::unique_ptr<DenseTable> slices,
                         std::unique_ptr<SparseTables> tables)
    : sync_(config.mode == UpdatePolicy::kSync),
      slices_(std::move(slices)),
      tables_(std::move(tables)),
      progress_(slices_->size() + tables_->size()),
      step_(*slices_, *tables_, config.trainers),
      snapshotter_(*slices_, *tables_) {}

Status ShardParams::Init(uint64_t version, const std::vector<SliceValues>& params,
                         const std::vector<SlotValues>& slots, const std::vector<RowValues>& rows) {
  std::vector<bool> given = progress_.flags();
  std::vector<int> where;
  for (const SliceValues& p : params) {
    TD_ASSIGN_OR_RETURN(const int slice, slices_->index().Find(p.variable, p.offset));
    if (p.numel != slices_->spec(slice).numel) {
      return InvalidArgument(
          "the initial values of the slice of %s that starts at element %d have %d elements, "
          "expected %d",
          p.variable, p.offset, p.numel, slices_->spec(slice).numel);
    }
    if (const int64_t bad = FirstNotFinite(Floats(p.values, p.numel)); bad >= 0) {
      return InvalidArgument("initial values of %s: element %d is not finite [TD4013]", p.variable,
                             p.offset + bad);
    }
    where.push_back(slice);
  }
  for (const SlotValues& s : slots) TD_RETURN_IF_ERROR(InitSlot(s));
  for (const RowValues& r : rows) {
    TD_RETURN_IF_ERROR(InitRows(r, version));
    if (r.last) given[slices_->size() + static_cast<size_t>(tables_->Find(r.variable))] = true;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    TD_RETURN_IF_ERROR(slices_->SetParam(where[i], Floats(params[i].values, params[i].numel)));
    given[static_cast<size_t>(where[i])] = true;
  }
  progress_.Set(std::move(given));
  return OkStatus();
}

Status ShardParams::InitSlot(const SlotValues& slot) {
  if (const int table = tables_->Find(slot.variable); table >= 0) {
    if (slot.numel != 1) {
      return InvalidArgument(
          "slot %s of table %s has %d elements, expected 1: the slots of rows are sent with the "
          "rows",
          slot.slot, slot.variable, slot.numel);
    }
    return tables_->table(table).SetScalar(slot.slot, Floats(slot.values, 1)[0]);
  }
  TD_ASSIGN_OR_RETURN(const int slice, slices_->index().Find(slot.variable, slot.offset));
  return slices_->SetSlot(slice, slot.slot, Floats(slot.values, slot.numel));
}

Status ShardParams::InitRows(const RowValues& rows, uint64_t version) {
  const int table = tables_->Find(rows.variable);
  if (table < 0) return NotFound("this server has no table \"%s\" [TD4034]", rows.variable);
  if (const int64_t bad = FirstNotFinite(rows.content); bad >= 0) {
    return InvalidArgument(
        "initial values of table %s: the row value at index %d is not finite [TD4013]",
        rows.variable, bad);
  }
  return tables_->table(table).SetRows(rows, version);
}

StatusOr<int> ShardParams::FindRange(const PullRange& range, const MoveState& moves) const {
  StatusOr<int> slice = slices_->index().FindRange(range);
  if (slice.ok() ? slices_->served(*slice) : !moves.MovesSlices()) return slice;
  return OutOfRange("the slice of %s that starts at element %d is not on this server now",
                    range.variable, range.offset);
}

StatusOr<std::vector<int>> ShardParams::FindPush(const PushHead& head,
                                                 const MoveState& moves) const {
  if (head.slices.empty()) {
    return InvalidArgument("trainer %d step %d: the push contains no slices", head.caller.trainer,
                           DisplayStep(head.step));
  }
  std::vector<int> found;
  std::vector<bool> in_message(progress_.size(), false);
  for (size_t i = 0; i < head.slices.size(); ++i) {
    const PushHead::Slice& s = head.slices[i];
    if (tables_->Find(s.variable) >= 0) {
      TD_ASSIGN_OR_RETURN(const int table, FindTablePush(head, i++));
      if (in_message[table] || IsGathered(table, head.caller.trainer)) {
        return InvalidArgument("trainer %d step %d: the push contains two gradients of table %s",
                               head.caller.trainer, DisplayStep(head.step), s.variable);
      }
      in_message[table] = true;
      found.insert(found.end(), 2, table);
      continue;
    }
    TD_RETURN_IF_ERROR(FindRange({s.variable, s.offset, 1}, moves).status());
    TD_ASSIGN_OR_RETURN(const int slice, slices_->index().Find(s.variable, s.offset));
    const TensorDesc expected{DType::kF32, Shape{slices_->spec(slice).numel}};
    if (!(s.desc == expected)) {
      return InvalidArgument(
          "trainer %d step %d: the gradient of the slice of %s that starts at element %d is %s, "
          "expected %s",
          head.caller.trainer, DisplayStep(head.step), s.variable, s.offset, ToString(s.desc),
          ToString(expected));
    }
    if (in_message[slice] || IsGathered(slice, head.caller.trainer)) {
      return InvalidArgument(
          "trainer %d step %d: the push contains two gradients of the slice of %s that starts at "
          "element %d",
          head.caller.trainer, DisplayStep(head.step), s.variable, s.offset);
    }
    in_message[slice] = true;
    found.push_back(slice);
  }
  return found;
}

StatusOr<int> ShardParams::FindTablePush(const PushHead& head, size_t i) const {
  const std::string& name = head.slices[i].variable;
  const int table = tables_->Find(name);
  const int64_t width = tables_->table(table).push_width();
  const TensorDesc& ids = head.slices[i].desc;
  const auto wrong = [&](const std::string& what) {
    return InvalidArgument("trainer %d step %d: the gradient of table %s is invalid: %s",
                           head.caller.trainer, DisplayStep(head.step), name, what);
  };
  if (ids.dtype != DType::kI64 || ids.shape.rank() != 1) {
    return wrong(absl::StrFormat("row ids are %s, expected i64 of one dimension", ToString(ids)));
  }
  if (static_cast<size_t>(ids.shape[0]) > kRowsOfMessageMax) {
    return wrong(absl::StrFormat("a message has %d rows, expected at most %d", ids.shape[0],
                                 kRowsOfMessageMax));
  }
  if (i + 1 == head.slices.size() || head.slices[i + 1].variable != name) {
    return wrong("values must follow the row ids");
  }
  const TensorDesc expected{DType::kF32, {ids.shape[0], width}};
  if (!(head.slices[i + 1].desc == expected)) {
    const bool counts = width != tables_->table(table).spec().dim();
    return wrong(absl::StrFormat("values are %s, expected %s%s", ToString(head.slices[i + 1].desc),
                                 ToString(expected),
                                 counts ? ": shows, clicks and the gradient of each row" : ""));
  }
  return static_cast<int>(slices_->size()) + table;
}

Status ShardParams::PrepareRows(const PushHead& head, const PushTicket& ticket) {
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    if (!IsTable(ticket.slices[i])) continue;
    SparseTable& table = tables_->table(TableOf(ticket.slices[i]));
    const auto ids = Ids(ticket.buffers[i], head.slices[i].desc);
    Status status =
        table.CheckPush({ids, reinterpret_cast<const float*>(ticket.buffers[i + 1].data())});
    if (status.ok()) status = table.Prepare(ids);
    if (!status.ok()) {
      return Annotate(status, absl::StrFormat("trainer %d step %d", head.caller.trainer,
                                              DisplayStep(head.step)));
    }
    ++i;  // skips the values that follow the ids
  }
  return OkStatus();
}

Status ShardParams::Apply(const PushHead& head, const PushTicket& ticket, uint64_t version,
                          int64_t event_time_ms) {
  TD_RETURN_IF_ERROR(tables_->Begin(version, event_time_ms, /*keep_previous=*/false));
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    const int index = ticket.slices[i];
    if (!IsTable(index)) {
      TD_RETURN_IF_ERROR(slices_->Apply(
          index, Floats(ticket.buffers[i], head.slices[i].desc.shape.numel()), head.learning_rate));
      continue;
    }
    const RowsGradient gradient{Ids(ticket.buffers[i], head.slices[i].desc),
                                reinterpret_cast<const float*>(ticket.buffers[i + 1].data())};
    TD_RETURN_IF_ERROR(tables_->table(TableOf(index)).Apply({&gradient, 1}, head.learning_rate));
    ++i;
  }
  return OkStatus();
}

Status ShardParams::ApplyGathered(std::span<const int> ranks, float learning_rate, uint64_t version,
                                  int64_t event_time_ms) {
  TD_REQUIRE(!ranks.empty() &&
             std::ranges::all_of(ranks, [this](int r) { return step_.GaveAll(r); }));
  TD_RETURN_IF_ERROR(tables_->Begin(version, event_time_ms, /*keep_previous=*/true));
  TD_RETURN_IF_ERROR(slices_->ApplyStep(step_.slices(), ranks, learning_rate));
  step_.slices().DropAll();
  if (!tables_->ServesAny()) return OkStatus();
  TD_RETURN_IF_ERROR(tables_->ApplyStep(step_.tables(), ranks, learning_rate));
  step_.tables().DropAll();
  step_.OnEnded();
  return OkStatus();
}

StatusOr<PulledSlice> ShardParams::Rows(const PullRows& rows, bool previous) {
  TD_REQUIRE(tables_->CheckRows(rows).ok());
  SparseTable& table = tables_->table(tables_->Find(rows.variable));
  const int64_t dim = table.spec().dim();
  const auto numel = static_cast<int64_t>(rows.ids.size()) * dim;
  TD_ASSIGN_OR_RETURN(Buffer values,
                      slices_->pool().Take(static_cast<size_t>(numel) * sizeof(float)));
  TD_RETURN_IF_ERROR(
      Annotate(table.Pull(rows.ids, previous, reinterpret_cast<float*>(values.get())),
               "pull of table " + rows.variable));
  return PulledSlice{rows.variable, 0, numel, std::move(values), 0, dim};
}

StatusOr<std::vector<SlotValues>> ShardParams::Slots(const std::vector<std::string>& variables,
                                                     const MoveState& moves) {
  const auto wanted = [&variables](const std::string& name) {
    return variables.empty() ||
           std::find(variables.begin(), variables.end(), name) != variables.end();
  };
  for (const std::string& variable : variables) {
    if (tables_->Find(variable) >= 0 || slices_->index().Holds(variable)) continue;
    TD_RETURN_IF_ERROR(FindRange({variable, 0, 1}, moves).status());
  }
  std::vector<SlotValues> slots;
  for (size_t i = 0; i < slices_->size(); ++i) {
    const SliceSpec& spec = slices_->spec(static_cast<int>(i));
    if (!wanted(spec.variable) || moves.offered.contains(spec.bucket)) continue;
    TD_ASSIGN_OR_RETURN(SliceSnapshot slice, slices_->Snapshot(static_cast<int>(i)));
    for (SliceSnapshot::Slot& slot : slice.slots) {
      slots.push_back({spec.variable, spec.offset, slot.name, slot.numel, std::move(slot.values)});
    }
  }
  for (size_t i = 0; i < tables_->size(); ++i) {
    const SparseTable& table = tables_->table(static_cast<int>(i));
    const std::string& name = table.spec().variable;
    if (!wanted(name)) continue;
    for (const auto& [slot, value] : table.scalars()) {
      TD_ASSIGN_OR_RETURN(Buffer copy, slices_->pool().Take(sizeof(float)));
      std::memcpy(copy.get(), &value, sizeof(float));
      slots.push_back({name, 0, slot, 1, std::move(copy)});
    }
  }
  return slots;
}

// ---- Buckets

bool ShardParams::Serves(int bucket) const {
  return bucket >= kRowBuckets ? slices_->Serves(bucket) : tables_->Serves(bucket);
}

void ShardParams::Keep(int bucket, bool served) {
  bucket >= kRowBuckets ? slices_->Keep(bucket, served) : tables_->Keep(bucket, served);
}

Status ShardParams::Drop(int bucket) {
  if (bucket < kRowBuckets) return tables_->DropBucket(bucket);
  if (const int slice = slices_->Remove(bucket); slice >= 0) step_.slices().RemoveItem(slice);
  progress_.SetAll(slices_->size() + tables_->size());
  return OkStatus();
}

Status ShardParams::PlaceBuckets(const MoveState& moves, int server) {
  for (const auto& [bucket, epoch] : moves.offered) {
    if (bucket >= kRowBuckets) Keep(bucket, false);
  }
  for (int b = 0; b < kRowBuckets; ++b) {
    const bool offered = moves.offered.contains(b);
    if (moves.map.epoch(b) == 0 && !offered) continue;
    const bool mine = moves.map.owner(b, -1) == server;
    if (mine || offered) {
      Keep(b, mine);
    } else {
      TD_RETURN_IF_ERROR(Drop(b));
    }
  }
  return OkStatus();
}

Status ShardParams::Add(const SliceMigration& migration) {
  TD_RETURN_IF_ERROR(slices_->Add(migration.spec));
  step_.slices().AddItem();
  progress_.SetAll(slices_->size() + tables_->size());
  const int slice = static_cast<int>(slices_->size()) - 1;
  TD_RETURN_IF_ERROR(
      slices_->SetParam(slice, Floats(migration.snapshot.param, migration.spec.numel)));
  for (const SliceSnapshot::Slot& slot : migration.snapshot.slots) {
    TD_RETURN_IF_ERROR(slices_->SetSlot(slice, slot.name, Floats(slot.values, slot.numel)));
  }
  slices_->SetPrevious(slice, migration.snapshot.previous);
  return OkStatus();
}

}  // namespace tandem::pserver
