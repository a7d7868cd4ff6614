#include "pserver/tables/shard_params.h"
#include "common/base/step_number.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/tensor/finite.h"

namespace tandem::pserver {
namespace {

std::span<const uint64_t> Ids(const PushBytes& bytes, const TensorDesc& desc) {
  return {reinterpret_cast<const uint64_t*>(bytes.data()), static_cast<size_t>(desc.shape.numel())};
}

// The bytes as a buffer. It owns nothing if they are in the message: the push then completes the
// step, which only reads them.
Buffer BufferOf(PushBytes& bytes) {
  if (bytes.owned()) return std::move(bytes).Take();
  return Buffer(Buffer(), const_cast<std::byte*>(bytes.data()));
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
    : sync_(config.mode == ShardMode::kSync),
      trainers_(config.trainers),
      slices_(std::move(slices)),
      tables_(std::move(tables)) {
  SetGiven(std::vector<bool>(slices_->size() + tables_->size(), false));
}

void ShardParams::SetGiven(std::vector<bool> given) {
  given_ = std::move(given);
  missing_ = static_cast<size_t>(std::count(given_.begin(), given_.end(), false));
}

Status ShardParams::Init(uint64_t version, const std::vector<SliceValues>& params,
                         const std::vector<SlotValues>& slots, const std::vector<RowValues>& rows) {
  std::vector<bool> given = given_;
  std::vector<int> where;
  for (const SliceValues& p : params) {
    TD_ASSIGN_OR_RETURN(const int slice, slices_->Find(p.variable, p.offset));
    if (p.numel != slices_->spec(slice).numel) {
      return InvalidArgument("first values of %s at element %d: %d elements, expected %d",
                             p.variable, p.offset, p.numel, slices_->spec(slice).numel);
    }
    if (const int64_t bad = FirstNotFinite(Floats(p.values, p.numel)); bad >= 0) {
      return InvalidArgument("first values of %s: element %d is not finite", p.variable,
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
  SetGiven(std::move(given));
  return OkStatus();
}

Status ShardParams::InitSlot(const SlotValues& slot) {
  if (const int table = tables_->Find(slot.variable); table >= 0) {
    if (slot.numel != 1) {
      return InvalidArgument("slot %s of table %s has %d elements; those of rows come with them",
                             slot.slot, slot.variable, slot.numel);
    }
    return tables_->table(table).SetScalar(slot.slot, Floats(slot.values, 1)[0]);
  }
  TD_ASSIGN_OR_RETURN(const int slice, slices_->Find(slot.variable, slot.offset));
  return slices_->SetSlot(slice, slot.slot, Floats(slot.values, slot.numel));
}

Status ShardParams::InitRows(const RowValues& rows, uint64_t version) {
  const int table = tables_->Find(rows.variable);
  if (table < 0) return NotFound("there is no table \"%s\" here", rows.variable);
  if (const int64_t bad = FirstNotFinite(rows.content); bad >= 0) {
    return InvalidArgument("first values of table %s: value %d of its rows is not finite",
                           rows.variable, bad);
  }
  return tables_->table(table).SetRows(rows, version);
}

StatusOr<int> ShardParams::FindRange(const PullRange& range, const MoveState& moves) const {
  const StatusOr<int> slice = slices_->FindRange(range);
  if (slice.ok() ? slices_->served(*slice) : !moves.MovesSlices()) return slice;
  return OutOfRange("%s at element %d is not on this server, or not now", range.variable,
                    range.offset);
}

StatusOr<std::vector<int>> ShardParams::FindPush(const PushHead& head,
                                                 const MoveState& moves) const {
  if (head.slices.empty()) {
    return InvalidArgument("trainer %d step %d: a push without slices", head.caller.trainer,
                           DisplayStep(head.step));
  }
  std::vector<int> found;
  std::vector<bool> in_message(given_.size(), false);
  for (size_t i = 0; i < head.slices.size(); ++i) {
    const PushHead::Slice& s = head.slices[i];
    if (tables_->Find(s.variable) >= 0) {
      TD_ASSIGN_OR_RETURN(const int table, FindTablePush(head, i++));
      if (in_message[table] || TakesTwice(table, head.caller.trainer)) {
        return InvalidArgument("trainer %d step %d: gradient of table %s comes twice",
                               head.caller.trainer, DisplayStep(head.step), s.variable);
      }
      in_message[table] = true;
      found.insert(found.end(), 2, table);
      continue;
    }
    TD_RETURN_IF_ERROR(FindRange({s.variable, s.offset, 1}, moves).status());
    TD_ASSIGN_OR_RETURN(const int slice, slices_->Find(s.variable, s.offset));
    const TensorDesc expected{DType::kF32, Shape{slices_->spec(slice).numel}};
    if (!(s.desc == expected)) {
      return InvalidArgument("trainer %d step %d: gradient of %s at element %d is %s, expected %s",
                             head.caller.trainer, DisplayStep(head.step), s.variable, s.offset,
                             ToString(s.desc), ToString(expected));
    }
    if (in_message[slice] || TakesTwice(slice, head.caller.trainer)) {
      return InvalidArgument("trainer %d step %d: gradient of %s at element %d comes twice",
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
    return InvalidArgument("trainer %d step %d: gradient of table %s: %s", head.caller.trainer,
                           DisplayStep(head.step), name, what);
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
    const bool counts = width != tables_->table(table).spec().dim();
    return wrong(absl::StrFormat("values are %s, expected %s%s", ToString(head.slices[i + 1].desc),
                                 ToString(expected),
                                 counts ? ": shows, clicks and the gradient of each row" : ""));
  }
  return static_cast<int>(slices_->size()) + table;
}

bool ShardParams::TakesTwice(int index, int trainer) const {
  if (!sync_) return false;
  return IsTable(index) ? tables_->Has(TableOf(index), trainer) : slices_->Has(index, trainer);
}

Status ShardParams::PrepareRows(const PushHead& head, const PushTicket& ticket) {
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    if (!IsTable(ticket.slices[i])) continue;
    SparseTable& table = tables_->table(TableOf(ticket.slices[i]));
    const auto ids = Ids(ticket.buffers[i], head.slices[i].desc);
    Status status = table.CheckIds(ids, true);
    if (status.ok()) {
      status =
          table.CheckCounts({ids, reinterpret_cast<const float*>(ticket.buffers[i + 1].data())});
    }
    if (status.ok()) status = table.Prepare(ids);
    if (!status.ok()) {
      return Annotate(status, absl::StrFormat("trainer %d step %d", head.caller.trainer,
                                              DisplayStep(head.step)));
    }
    ++i;  // skips its values
  }
  return OkStatus();
}

Status ShardParams::Apply(const PushHead& head, const PushTicket& ticket, uint64_t version) {
  TD_RETURN_IF_ERROR(tables_->Begin(version, /*keep_previous=*/false));
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

bool ShardParams::IsWholeStep(const PushHead& head) const {
  // If no row is served, the step is made without the rows of its pushes.
  if (tables_->size() != 0 && !ServesRows()) return false;
  return head.slices.size() == slices_->size() + 2 * tables_->size();
}

void ShardParams::Gather(const PushHead& head, PushTicket& ticket) {
  const int trainer = head.caller.trainer;
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    const int index = ticket.slices[i];
    if (!IsTable(index)) {
      slices_->Gather(index, trainer, BufferOf(ticket.buffers[i]));
      continue;
    }
    const auto count = static_cast<size_t>(head.slices[i].desc.shape[0]);
    tables_->Gather(TableOf(index), trainer,
                    {BufferOf(ticket.buffers[i]), BufferOf(ticket.buffers[i + 1]), count});
    ++i;
  }
}

bool ShardParams::GaveAll(int trainer) const {
  return slices_->gathered(trainer) == static_cast<int>(slices_->size()) &&
         (!ServesRows() || tables_->gathered(trainer) == static_cast<int>(tables_->size()));
}

std::vector<std::string> ShardParams::Lacks(int trainer) const {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(slices_->size()); ++i) {
    const std::string& name = slices_->spec(i).variable;
    if (!slices_->Has(i, trainer) && (names.empty() || names.back() != name)) names.push_back(name);
  }
  for (int i = 0; ServesRows() && i < static_cast<int>(tables_->size()); ++i) {
    if (!tables_->Has(i, trainer)) names.push_back(tables_->table(i).spec().variable);
  }
  return names;
}

bool ShardParams::GaveNothing(int trainer) const {
  return slices_->gathered(trainer) == 0 && tables_->gathered(trainer) == 0;
}

bool ShardParams::NothingGathered() const {
  for (int r = 0; r < trainers_; ++r) {
    if (!GaveNothing(r)) return false;
  }
  return true;
}

void ShardParams::DropGathered(int trainer) {
  slices_->Drop(trainer);
  tables_->Drop(trainer);
}

Status ShardParams::ApplyGathered(std::span<const int> ranks, float learning_rate,
                                  uint64_t version) {
  const bool rows = ServesRows();
  TD_RETURN_IF_ERROR(tables_->Begin(version, /*keep_previous=*/true));
  TD_RETURN_IF_ERROR(slices_->ApplyGathered(ranks, learning_rate));
  return rows ? tables_->ApplyGathered(ranks, learning_rate) : OkStatus();
}

Status ShardParams::CheckRows(const PullRows& rows) const {
  const int table = tables_->Find(rows.variable);
  if (table < 0) return NotFound("there is no table \"%s\" here", rows.variable);
  if (rows.ids.size() > kRowsOfMessageMax) {
    return InvalidArgument("pull of %d rows of table %s; at most %d in one message",
                           rows.ids.size(), rows.variable, kRowsOfMessageMax);
  }
  return tables_->table(table).CheckIds(rows.ids, false);
}

StatusOr<PulledSlice> ShardParams::Rows(const PullRows& rows, bool previous) {
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
    if (tables_->Find(variable) >= 0 || slices_->Holds(variable)) continue;
    TD_RETURN_IF_ERROR(FindRange({variable, 0, 1}, moves).status());
  }
  std::vector<SlotValues> slots;
  for (size_t i = 0; i < slices_->size(); ++i) {
    const SliceSpec& spec = slices_->spec(static_cast<int>(i));
    if (!wanted(spec.variable) || moves.offered.contains(spec.bucket)) continue;
    TD_ASSIGN_OR_RETURN(SliceSnapshot image, slices_->Image(static_cast<int>(i)));
    for (SliceSnapshot::Slot& slot : image.slots) {
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

}  // namespace tandem::pserver
