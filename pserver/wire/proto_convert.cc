#include "pserver/wire/proto_convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/crc32c.h"
#include "common/codec/optimizer_def.h"
#include "common/codec/update_policy_proto.h"
#include "proto/pserver.pb.h"
#include "pserver/state/buffer_pool.h"

namespace tandem::pserver {
namespace {

StatusOr<graph::OptimizerSpec> OptimizerFromProto(const OptimizerDef& def) {
  graph::OptimizerSpec spec;
  spec.type = def.type();
  for (const OptimizerAttr& attr : def.attr()) {
    ops::Attr value;
    switch (attr.value_case()) {
      case OptimizerAttr::kF:
        value = attr.f();
        break;
      case OptimizerAttr::kI:
        value = int64_t{attr.i()};
        break;
      case OptimizerAttr::kB:
        value = attr.b();
        break;
      case OptimizerAttr::kS:
        value = attr.s();
        break;
      case OptimizerAttr::VALUE_NOT_SET:
        return InvalidArgument("optimizer %s: attribute \"%s\" has no value", def.type(),
                               attr.name());
    }
    if (!spec.attrs.emplace(attr.name(), std::move(value)).second) {
      return InvalidArgument("optimizer %s: attribute \"%s\" occurs twice", def.type(),
                             attr.name());
    }
  }
  return spec;
}

StatusOr<Buffer> Values(const TensorProto& tensor, const std::string& what, int64_t* numel) {
  TD_ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(tensor.dtype()));
  if (dtype != DType::kF32) {
    return InvalidArgument("%s: the tensor has element type %s, expected f32", what, Name(dtype));
  }
  TD_ASSIGN_OR_RETURN(const Shape shape,
                      ParseShape(std::span(tensor.dims().data(), tensor.dims_size())));
  const TensorDesc desc{dtype, shape};
  if (shape.rank() != 1 || tensor.content().size() != desc.bytes()) {
    return InvalidArgument(
        "%s: the tensor is %s with %d bytes, expected one dimension and 4 bytes per element", what,
        ToString(desc), tensor.content().size());
  }
  if (tensor.has_crc32c() &&
      tensor.crc32c() != Crc32c(0, tensor.content().data(), tensor.content().size())) {
    return DataLoss("%s: the tensor is damaged, because the checksum does not match the content",
                    what);
  }
  BufferPool pool(0);
  TD_ASSIGN_OR_RETURN(Buffer buffer, pool.Take(desc.bytes()));
  std::memcpy(buffer.get(), tensor.content().data(), desc.bytes());
  *numel = shape.numel();
  return buffer;
}

void SetValues(const Buffer& values, int64_t numel, TensorProto* out) {
  out->set_dtype(F32);
  out->add_dims(numel);
  out->set_content(values.get(), static_cast<size_t>(numel) * sizeof(float));
}

StatusOr<TableSpec> TableFromProto(const TableDef& def) {
  TableSpec table{.variable = def.variable(), .shape = {}, .init = {}, .seed = def.seed()};
  // Does not check this shape like the shapes of slices. A table may have up to 2^62 elements
  // (CheckConfig), because most of its rows never exist.
  if (def.dims_size() != 2)
    return InvalidArgument("a table has %d dimensions, expected 2", def.dims_size());
  table.shape = {def.dims(0), def.dims(1)};
  if (!InitDef::Kind_IsValid(def.init().kind())) {
    return InvalidArgument("the kind %d of initial values is unknown",
                           static_cast<int>(def.init().kind()));
  }
  // InitDef::Kind and Init::Kind have the same numeric values.
  table.init = {static_cast<graph::Init::Kind>(def.init().kind()), def.init().a(), def.init().b()};
  TD_ASSIGN_OR_RETURN(table.rules, ParseTableRules(def.rules()));
  constexpr uint32_t kMax = INT32_MAX;
  table.bucket_begin = static_cast<int>(std::min(def.bucket_begin(), kMax));
  table.bucket_end = static_cast<int>(std::min(def.bucket_end(), kMax));
  return table;
}

}  // namespace

SentNumbers NumbersOf(const CompleteRequest& r) {
  return {.sent = {}, .ended = {r.ended().begin(), r.ended().end()}};
}

StatusOr<SliceSpec> FromProto(const SliceDef& def) {
  if (def.dtype() != F32) {
    return InvalidArgument("slice of %s has element type %d, but only f32 is supported",
                           def.variable(), static_cast<int>(def.dtype()));
  }
  auto shape = ParseShape(std::span(def.dims().data(), def.dims_size()));
  if (!shape.ok()) return Annotate(shape.status(), "slice of " + def.variable());
  return SliceSpec{def.variable(), *shape, def.offset(), def.numel(),
                   static_cast<int>(std::min<uint32_t>(def.bucket(), INT32_MAX))};
}

void ToProto(const SliceSpec& spec, SliceDef* def) {
  def->set_variable(spec.variable);
  for (int64_t d : spec.shape.dims()) def->add_dims(d);
  def->set_offset(spec.offset);
  def->set_numel(spec.numel);
  def->set_dtype(F32);
  def->set_bucket(static_cast<uint32_t>(spec.bucket));
}

StatusOr<ShardConfig> FromProto(const ConfigureRequest& request) {
  ShardConfig config;
  config.job = request.job();
  if (request.trainers() > 1'000'000) {
    return InvalidArgument("the job has %d trainers, expected at most 1000000", request.trainers());
  }
  config.trainers = static_cast<int>(request.trainers());
  TD_ASSIGN_OR_RETURN(config.mode, FromProto(request.mode()));
  TD_ASSIGN_OR_RETURN(config.optimizer, OptimizerFromProto(request.optimizer()));
  constexpr uint64_t kTimeoutMsMax = uint64_t{7} * 24 * 3600 * 1000;
  const uint64_t timeout_ms = request.step_timeout_ms() == 0 ? 60'000 : request.step_timeout_ms();
  config.step_timeout = std::chrono::milliseconds(std::min(timeout_ms, kTimeoutMsMax));
  TD_ASSIGN_OR_RETURN(config.nonfinite, FromProto(request.nonfinite()));
  const uint64_t lost_ms = request.lost_after_ms() == 0 ? 900'000 : request.lost_after_ms();
  config.lost_after = std::chrono::milliseconds(std::min(lost_ms, kTimeoutMsMax));
  config.delay_compensation = request.delay_compensation();
  config.each_step_once = request.each_step_once();
  for (const SliceDef& def : request.slice()) {
    TD_ASSIGN_OR_RETURN(SliceSpec slice, FromProto(def));
    config.slices.push_back(std::move(slice));
  }
  for (const TableDef& def : request.table()) {
    auto table = TableFromProto(def);
    if (!table.ok()) return Annotate(table.status(), "table " + def.variable());
    config.tables.push_back(*std::move(table));
  }
  return config;
}

void ToProto(const ShardConfig& config, ConfigureRequest* request) {
  request->Clear();
  request->set_protocol(1);
  request->set_job(config.job);
  request->set_trainers(static_cast<uint32_t>(config.trainers));
  request->set_mode(ToProto(config.mode));
  codec::FillOptimizer(config.optimizer, request->mutable_optimizer());
  for (const SliceSpec& s : config.slices) {
    ToProto(s, request->add_slice());
  }
  for (const TableSpec& t : config.tables) {
    TableDef* def = request->add_table();
    def->set_variable(t.variable);
    for (int64_t d : t.shape.dims()) def->add_dims(d);
    def->mutable_init()->set_kind(static_cast<InitDef::Kind>(t.init.kind));
    def->mutable_init()->set_a(t.init.a);
    def->mutable_init()->set_b(t.init.b);
    def->set_seed(t.seed);
    def->set_bucket_begin(static_cast<uint32_t>(t.bucket_begin));
    def->set_bucket_end(static_cast<uint32_t>(t.bucket_end));
    def->set_rules(ToString(t.rules));
  }
  request->set_step_timeout_ms(static_cast<uint64_t>(Millis(config.step_timeout)));
  request->set_nonfinite(ToProto(config.nonfinite));
  request->set_lost_after_ms(static_cast<uint64_t>(Millis(config.lost_after)));
  request->set_delay_compensation(config.delay_compensation);
  request->set_each_step_once(config.each_step_once);
}

StatusOr<SliceValues> FromProto(const SliceTensor& slice) {
  SliceValues values{slice.variable(), slice.offset(), 0, nullptr};
  TD_ASSIGN_OR_RETURN(values.values,
                      Values(slice.tensor(), "values of " + slice.variable(), &values.numel));
  return values;
}

StatusOr<SlotValues> FromProto(const SlotTensor& slot) {
  SlotValues values{slot.variable(), slot.offset(), slot.slot(), 0, nullptr};
  TD_ASSIGN_OR_RETURN(values.values, Values(slot.tensor(), "slot " + slot.slot(), &values.numel));
  return values;
}

void ToProto(const SlotValues& slot, SlotTensor* out) {
  out->set_variable(slot.variable);
  out->set_offset(slot.offset);
  out->set_slot(slot.slot);
  SetValues(slot.values, slot.numel, out->mutable_tensor());
}

void ToProto(const SliceValues& slice, SliceTensor* out) {
  out->set_variable(slice.variable);
  out->set_offset(slice.offset);
  SetValues(slice.values, slice.numel, out->mutable_tensor());
}

StatusOr<RowValues> FromProto(const TableRows& rows) {
  RowValues values{rows.variable(), {rows.id().begin(), rows.id().end()}, {}, rows.last(), {}, {}};
  if (rows.content().size() % sizeof(float) != 0) {
    return InvalidArgument("rows of table %s: %d bytes are not a whole number of f32 values",
                           rows.variable(), rows.content().size());
  }
  // Precondition of the cast: the bytes of the content are aligned to floats.
  const auto* const content = reinterpret_cast<const float*>(rows.content().data());
  values.content.assign(content, content + rows.content().size() / sizeof(float));
  const int used = rows.show_size(), waiting = rows.waiting_id_size();
  const int counted = rows.click_size();
  values.use.reserve(static_cast<size_t>(used));
  if ((used != 0 && used != rows.id_size()) || rows.age_size() != used ||
      (counted != 0 && counted != used) || rows.brief_size() != counted ||
      rows.waiting_seen_size() != waiting || rows.waiting_age_size() != waiting) {
    return InvalidArgument("rows of table %s: the lists have different lengths", rows.variable());
  }
  for (int i = 0; i < used; ++i) {
    RowAge use{.show = rows.show(i), .age = rows.age(i)};
    if (counted != 0) use.click = rows.click(i);
    if (counted != 0) use.brief = rows.brief(i);
    if (!std::isfinite(use.show) || !std::isfinite(use.click)) {
      return InvalidArgument("row %d of table %s: the shows or clicks are not finite", rows.id(i),
                             rows.variable());
    }
    values.use.push_back(use);
  }
  for (int i = 0; i < waiting; ++i) {
    values.waiting.push_back({rows.waiting_id(i), rows.waiting_seen(i), rows.waiting_age(i)});
  }
  return values;
}

void ToProto(const RowValues& rows, TableRows* out) {
  out->set_variable(rows.variable);
  out->mutable_id()->Add(rows.ids.begin(), rows.ids.end());
  out->set_content(rows.content.data(), rows.content.size() * sizeof(float));
  out->set_last(rows.last);
  const bool counted =
      std::ranges::any_of(rows.use, [](const RowAge& use) { return use.click != 0 || use.brief; });
  for (const RowAge& use : rows.use) {
    out->add_show(use.show);
    out->add_age(use.age);
    if (!counted) continue;
    out->add_click(use.click);
    out->add_brief(use.brief);
  }
  for (const WaitingRow& row : rows.waiting) {
    out->add_waiting_id(row.id);
    out->add_waiting_seen(row.seen);
    out->add_waiting_age(row.age);
  }
}

RowChecks FromProto(const RowChecksDef& checks) {
  RowChecks all{.made = checks.made()};
  for (const RowChecksDef::Check& c : checks.recent()) {
    all.recent.push_back({.version = c.version(),
                          .time_s = c.time_s(),
                          .age_max = c.age_max(),
                          .decay = c.decay(),
                          .begin = c.begin()});
  }
  return all;
}

void ToProto(const RowChecks& checks, RowChecksDef* out) {
  out->set_made(checks.made);
  for (const RowCheck& check : checks.recent) {
    RowChecksDef::Check* const def = out->add_recent();
    def->set_version(check.version);
    def->set_time_s(check.time_s);
    def->set_age_max(check.age_max);
    def->set_decay(check.decay);
    def->set_begin(check.begin);
  }
}

}  // namespace tandem::pserver
