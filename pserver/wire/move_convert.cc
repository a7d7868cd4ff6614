#include "pserver/wire/move_convert.h"

#include <algorithm>

#include "proto/pserver.pb.h"
#include "pserver/state/buffer_pool.h"
#include "pserver/wire/proto_convert.h"

namespace tandem::pserver {
namespace {

using MarkDefs = google::protobuf::RepeatedPtrField<ServerMarkDef>;

StatusOr<std::vector<ServerPushState>> MarksOf(const MarkDefs& marks) {
  std::vector<ServerPushState> all;
  for (const ServerMarkDef& m : marks) {
    TD_ASSIGN_OR_RETURN(const TrainerPushState mark, FromProto(m.mark()));
    all.push_back({IndexOf(m.server()), mark, m.pushes(), m.last_step()});
  }
  return all;
}

void AddMarks(const std::vector<ServerPushState>& marks, MarkDefs* out) {
  for (const ServerPushState& m : marks) {
    ServerMarkDef* const to = out->Add();
    to->set_server(static_cast<uint32_t>(m.server));
    ToProto(m.mark, to->mutable_mark());
    to->set_pushes(m.pushes);
    to->set_last_step(m.last_step);
  }
}

std::map<int, uint64_t> EpochsOf(const MoveDefs& moves) {
  std::map<int, uint64_t> epochs;
  for (const BucketMove& move : FromProto(moves)) epochs[move.bucket] = move.epoch;
  return epochs;
}

void AddEpochs(const std::map<int, uint64_t>& epochs, MoveDefs* out) {
  std::vector<BucketMove> moves;
  for (const auto& [bucket, epoch] : epochs) moves.push_back({bucket, epoch, 0});
  ToProto(moves, out);
}

StatusOr<SliceMigration> SliceOf(const SliceParcelDef& def) {
  SliceMigration slice;
  TD_ASSIGN_OR_RETURN(slice.spec, FromProto(def.slice()));
  TD_ASSIGN_OR_RETURN(SliceValues param, FromProto(def.param()));
  const auto fits = [&slice](const SliceValues& v) { return v.numel == slice.spec.numel; };
  if (!fits(param))
    return InvalidArgument("slice of %s: the number of values differs from the size of the slice",
                           slice.spec.variable);
  slice.snapshot.param = std::move(param.values);
  for (const SlotTensor& s : def.slot()) {
    TD_ASSIGN_OR_RETURN(SlotValues slot, FromProto(s));
    slice.snapshot.slots.push_back({slot.slot, slot.numel, std::move(slot.values)});
  }
  if (def.has_previous()) {
    TD_ASSIGN_OR_RETURN(SliceValues previous, FromProto(def.previous()));
    if (!fits(previous))
      return InvalidArgument("slice of %s: the number of values differs from the size of the slice",
                             slice.spec.variable);
    slice.snapshot.previous = std::move(previous.values);
  }
  return slice;
}

void ToProto(const SliceMigration& slice, SliceParcelDef* out) {
  const SliceSpec& spec = slice.spec;
  ToProto(spec, out->mutable_slice());
  ToProto(SliceValues{spec.variable, spec.offset, spec.numel, slice.snapshot.param},
          out->mutable_param());
  for (const SliceSnapshot::Slot& s : slice.snapshot.slots) {
    ToProto(SlotValues{spec.variable, spec.offset, s.name, s.numel, s.values}, out->add_slot());
  }
  if (slice.snapshot.previous == nullptr) return;
  ToProto(SliceValues{spec.variable, spec.offset, spec.numel, slice.snapshot.previous},
          out->mutable_previous());
}

}  // namespace

StatusOr<TrainerPushState> FromProto(const TrainerMark& mark) {
  std::array<uint64_t, SequenceWindow::kWords> words{};
  if (mark.window_size() != static_cast<int>(words.size())) {
    return DataLoss("the push window of trainer %d has %d words, expected %d", mark.trainer_id(),
                    mark.window_size(), words.size());
  }
  std::copy(mark.window().begin(), mark.window().end(), words.begin());
  return TrainerPushState{IndexOf(mark.trainer_id()),
                          mark.incarnation(),
                          mark.completed(),
                          SequenceWindow::FromParts(mark.sequence(), words),
                          mark.lost_pushes(),
                          SentNumbers{{mark.sent().begin(), mark.sent().end()},
                                      {mark.ended().begin(), mark.ended().end()}},
                          mark.steps(),
                          mark.adopted(),
                          mark.rolled_back()};
}

void ToProto(const TrainerPushState& m, TrainerMark* mark) {
  mark->set_trainer_id(static_cast<uint32_t>(m.trainer));
  mark->set_incarnation(m.incarnation);
  mark->set_sequence(m.applied.highest());
  mark->set_completed(m.completed);
  mark->set_lost_pushes(m.lost_pushes);
  for (uint64_t word : m.applied.words()) mark->add_window(word);
  mark->mutable_sent()->Add(m.numbers.sent.begin(), m.numbers.sent.end());
  mark->mutable_ended()->Add(m.numbers.ended.begin(), m.numbers.ended.end());
  mark->set_steps(m.steps);
  mark->set_adopted(m.adopted);
  mark->set_rolled_back(m.rolled_back);
}

StatusOr<BucketMigration> FromProto(const ParcelDef& def) {
  BucketMigration parcel;
  if (def.has_config()) {
    TD_ASSIGN_OR_RETURN(parcel.config, FromProto(def.config()));
  }
  parcel.source = IndexOf(def.source());
  parcel.target = IndexOf(def.target());
  parcel.version = def.version();
  parcel.moves = FromProto(def.move());
  for (const TableRows& rows : def.rows()) {
    TD_ASSIGN_OR_RETURN(RowValues values, FromProto(rows));
    parcel.rows.push_back(std::move(values));
  }
  for (const SlotTensor& slot : def.slot()) {
    TD_ASSIGN_OR_RETURN(const SlotValues values, FromProto(slot));
    if (values.numel != 1) return InvalidArgument("slot %s is not a single number", values.slot);
    parcel.scalars.push_back(
        {values.variable, values.slot, *reinterpret_cast<const float*>(values.values.get())});
  }
  TD_ASSIGN_OR_RETURN(parcel.marks, MarksOf(def.mark()));
  parcel.map = FromProto(def.map());
  for (const TableRows& rows : def.previous()) {
    TD_ASSIGN_OR_RETURN(RowValues values, FromProto(rows));
    parcel.previous.push_back(std::move(values));
  }
  parcel.has_previous = def.has_previous();
  parcel.event_time_ms = def.event_time_ms();
  parcel.trainer_steps = {def.trainer_step().begin(), def.trainer_step().end()};
  for (const RowChecksDef& checks : def.checks()) {
    parcel.checks[checks.variable()] = FromProto(checks);
  }
  for (const SliceParcelDef& slice : def.slice()) {
    TD_ASSIGN_OR_RETURN(SliceMigration values, SliceOf(slice));
    parcel.slices.push_back(std::move(values));
  }
  return parcel;
}

void ToProto(const BucketMigration& parcel, ParcelDef* out) {
  if (!parcel.config.job.empty()) ToProto(parcel.config, out->mutable_config());
  out->set_source(static_cast<uint32_t>(parcel.source));
  out->set_target(static_cast<uint32_t>(parcel.target));
  out->set_version(parcel.version);
  ToProto(parcel.moves, out->mutable_move());
  for (const RowValues& rows : parcel.rows) ToProto(rows, out->add_rows());
  for (const BucketMigration::Scalar& s : parcel.scalars) {
    SlotTensor* const slot = out->add_slot();
    slot->set_variable(s.variable);
    slot->set_slot(s.slot);
    slot->mutable_tensor()->set_dtype(F32);
    slot->mutable_tensor()->add_dims(1);
    slot->mutable_tensor()->set_content(&s.value, sizeof(s.value));
  }
  AddMarks(parcel.marks, out->mutable_mark());
  ToProto(parcel.map, out->mutable_map());
  for (const RowValues& rows : parcel.previous) ToProto(rows, out->add_previous());
  out->set_has_previous(parcel.has_previous);
  out->set_event_time_ms(parcel.event_time_ms);
  out->mutable_trainer_step()->Add(parcel.trainer_steps.begin(), parcel.trainer_steps.end());
  for (const auto& [table, checks] : parcel.checks) {
    RowChecksDef* const def = out->add_checks();
    ToProto(checks, def);
    def->set_variable(table);
  }
  for (const SliceMigration& slice : parcel.slices) ToProto(slice, out->add_slice());
}

StatusOr<MoveState> FromProto(const MovesMeta& meta) {
  MoveState state;
  state.map = FromProto(meta.map());
  state.generation = meta.generation();
  state.begun = EpochsOf(meta.begun());
  state.offered = EpochsOf(meta.offered());
  TD_ASSIGN_OR_RETURN(state.inherited, MarksOf(meta.mark()));
  state.leaving = meta.leaving();
  state.offered_between_steps = meta.offered_between_steps();
  for (const SliceDef& def : meta.placed()) {
    TD_ASSIGN_OR_RETURN(SliceSpec slice, FromProto(def));
    state.placed.push_back(std::move(slice));
  }
  return state;
}

void ToProto(const MoveState& state, MovesMeta* out) {
  ToProto(state.map, out->mutable_map());
  out->set_generation(state.generation);
  AddEpochs(state.begun, out->mutable_begun());
  AddEpochs(state.offered, out->mutable_offered());
  AddMarks(state.inherited, out->mutable_mark());
  out->set_leaving(state.leaving);
  out->set_offered_between_steps(state.offered_between_steps);
  for (const SliceSpec& slice : state.placed) ToProto(slice, out->add_placed());
}

}  // namespace tandem::pserver
