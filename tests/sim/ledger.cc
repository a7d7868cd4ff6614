#include "tests/sim/ledger.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "common/base/rng.h"
#include "common/base/visitor.h"
#include "common/tables/row_buckets.h"
#include "pserver/state/bucket_move.h"

namespace tandem::pserver {
namespace {

std::span<const float> ValuesOf(const ShardSnapshot& image, size_t slice) {
  return Floats(image.slices[slice].param, image.config.slices[slice].numel);
}

// Maps an id to a row: shows, clicks, then the values. A row without embedx values has only the
// first value.
using LedgerRows = std::map<int64_t, std::vector<float>>;
constexpr size_t kCounts = 2;
constexpr float kNonclkCoeff = 0.25f, kEmbedxThreshold = 3;

void AddRows(const RowValues& values, LedgerRows& rows) {
  const float* content = values.content.data();
  for (size_t i = 0; i < values.ids.size(); ++i) {
    const RowAge& use = values.use[i];
    std::vector<float>& row = rows[static_cast<int64_t>(values.ids[i])];
    row = {use.show, use.click};
    const float* const end = content + (use.brief ? 1 : kSimRowDim);
    row.insert(row.end(), content, end);
    content = end;
  }
}

// Applies a push to a row. The function implements the rules of the table independently of the
// product. The update that raises the score to the threshold adds the remaining values, which start
// at 0.
void UpdateRow(std::span<const float> pushed, float rate, std::vector<float>& row) {
  if (row.empty()) row.resize(kCounts + 1);
  for (size_t i = 0; i < kCounts; ++i) row[i] += pushed[i];
  for (size_t i = kCounts; i < row.size(); ++i) row[i] = row[i] - rate * pushed[i];
  const float score = kNonclkCoeff * (row[0] - row[1]) + row[1];
  if (score >= kEmbedxThreshold) row.resize(kCounts + kSimRowDim);
}

// Rows of the table "fading". Their ids differ from those of the table "rows".
constexpr int64_t kFirstFading = int64_t{1} << 36, kFadingSteps = 13;

LedgerRows RowsOf(const ShardSnapshot& image) {
  LedgerRows rows;
  for (size_t t = 0; t < image.tables.size(); ++t) {
    if (image.config.tables[t].variable != "rows") continue;
    for (const auto& [bucket, values] : image.tables[t].buckets) {
      AddRows(values, rows);
    }
  }
  return rows;
}

// Returns whether another server has offered the row or slice to this server. The other server owns
// the row or slice until the move is committed.
bool IsOffered(const ShardSnapshot& image, int64_t id) {
  return image.moves != nullptr &&
         image.moves->offered.contains(RowBucket(static_cast<uint64_t>(id)));
}

bool IsOffered(const ShardSnapshot& image, const SliceSpec& slice) {
  return image.moves != nullptr && image.moves->offered.contains(slice.bucket);
}

using SliceMap = std::map<std::pair<std::string, int64_t>, std::vector<float>>;

// Computes p = p - rate * g.
void Update(std::span<const float> g, float rate, std::vector<float>& p) {
  for (size_t i = 0; i < p.size(); ++i) p[i] = p[i] - rate * g[i];
}

// Applies the recorded moves in the recorded order: rows and slices arrive and leave with their
// buckets.
class RecordedMoves {
 public:
  explicit RecordedMoves(const ShardSnapshot& base) {
    if (base.moves != nullptr) offered_ = base.moves->offered;
    for (const SliceSpec& s : base.config.slices) slices_[s.bucket] = {s.variable, s.offset};
  }
  void Make(const MoveRecord& move, LedgerRows& rows, SliceMap& slices) {
    std::visit(Visitor{[](const MoveBegunRecord&) {},
                       [&](const MoveOfferedRecord& r) { Receive(*r.migration, rows, slices); },
                       [&](const MoveReleasedRecord& r) {
                         for (const BucketMove& m : r.moves) Drop(m.bucket, rows, slices);
                         Learn(r.map, rows, slices);
                       },
                       [&](const MoveLearnedRecord& r) { Learn(r.map, rows, slices); },
                       [](const MoveRefusedRecord&) {}},
               move);
  }

 private:
  void Receive(const BucketMigration& migration, LedgerRows& rows, SliceMap& slices) {
    for (const BucketMove& m : migration.moves) {
      Drop(m.bucket, rows, slices);
      offered_[m.bucket] = m.epoch;
    }
    for (const RowValues& values : migration.rows) {
      if (values.variable == "rows") AddRows(values, rows);
    }
    for (const SliceMigration& s : migration.slices) {
      const std::span<const float> values = Floats(s.snapshot.param, s.spec.numel);
      slices_[s.spec.bucket] = {s.spec.variable, s.spec.offset};
      slices[slices_[s.spec.bucket]] = {values.begin(), values.end()};
    }
  }
  void Learn(const BucketMap& map, LedgerRows& rows, SliceMap& slices) {
    for (const BucketMove& m : map.moves()) {
      const auto offered = offered_.find(m.bucket);
      if (offered == offered_.end() || m.epoch < offered->second) continue;
      if (m.epoch > offered->second) Drop(m.bucket, rows, slices);
      offered_.erase(offered);
    }
  }
  void Drop(int bucket, LedgerRows& rows, SliceMap& slices) const {
    const auto slice = slices_.find(bucket);
    if (slice != slices_.end()) slices.erase(slice->second);
    std::erase_if(rows, [bucket](const auto& row) {
      return RowBucket(static_cast<uint64_t>(row.first)) == bucket;
    });
  }
  std::map<int, uint64_t> offered_;
  std::map<int, SliceMap::key_type> slices_;  // variable and offset of each slice, by bucket
};

}  // namespace

SimLedger::SimLedger(int servers, int trainers, int steps, const std::string& fading)
    : servers_(servers),
      trainers_(trainers),
      steps_(steps),
      fading_(fading),
      fate_(static_cast<size_t>(trainers * steps), Fate::kNone),
      acknowledged_(fate_.size(), Time::min()),
      forgiven_(fate_.size(), false) {}

std::vector<ps::PsVariable> SimLedger::Variables() const {
  return {{"ledger", Shape{servers_, slots()}}, {"weights", Shape{servers_, kSimWeights}}};
}

std::vector<ps::PsTable> SimLedger::Tables() const {
  std::vector<ps::PsTable> tables = {
      {.variable = "rows",
       .height = int64_t{1} << 40,
       .dim = kSimRowDim,
       .rules = absl::StrFormat("accessor=ctr nonclk_coeff=%g embedx_threshold=%g", kNonclkCoeff,
                                kEmbedxThreshold)}};
  if (fading()) {
    tables.push_back(
        {.variable = "fading", .height = int64_t{1} << 40, .dim = kSimRowDim, .rules = fading_});
  }
  return tables;
}

int64_t SimLedger::SlotOf(int trainer, uint64_t step) const {
  return trainer * steps_ + static_cast<int64_t>(step);
}

void SimLedger::Raise(int trainer, uint64_t step, Fate fate) {
  Fate& now = fate_[static_cast<size_t>(SlotOf(trainer, step))];
  now = std::max(now, fate);
}

void SimLedger::Acknowledge(int trainer, uint64_t step, Time now) {
  Raise(trainer, step, Fate::kAcknowledged);
  acknowledged_[static_cast<size_t>(SlotOf(trainer, step))] = now;
}

void SimLedger::Forgive(Time since) {
  for (size_t slot = 0; slot < fate_.size(); ++slot) {
    if (acknowledged_[slot] >= since || fate_[slot] == Fate::kBegun) forgiven_[slot] = true;
  }
}

void SimLedger::ForgiveProcess(int trainer) {
  for (int64_t step = 0; step < steps_; ++step) {
    const auto slot = static_cast<size_t>(SlotOf(trainer, static_cast<uint64_t>(step)));
    if (fate_[slot] != Fate::kNone) forgiven_[slot] = true;
  }
}

void SimLedger::Rewind() {
  for (Fate& fate : fate_) {
    if (fate == Fate::kAcknowledged) fate = Fate::kBegun;
  }
}

uint64_t SimLedger::begun(int trainer) const {
  uint64_t step = 0;
  while (static_cast<int64_t>(step) < steps_ &&
         fate_[static_cast<size_t>(SlotOf(trainer, step))] != Fate::kNone) {
    ++step;
  }
  return step;
}

std::string SimLedger::CheckSlot(size_t slot, float count, bool all,
                                 std::vector<uint64_t>& spare) const {
  const Fate fate = forgiven_[slot] ? Fate::kBegun : fate_[slot];
  const float least = all || fate == Fate::kAcknowledged ? 1 : 0;
  const float most = all || fate != Fate::kNone ? 1 : 0;
  if (count >= least && count <= most) return "";
  const auto index = static_cast<int64_t>(slot);
  uint64_t& lost = spare[static_cast<size_t>(index / steps_)];
  if (count == 0 && lost > 0) {
    --lost;
    return "";
  }
  const char* const known = fate == Fate::kAcknowledged ? "acknowledged"
                            : fate == Fate::kBegun      ? "begun"
                                                        : "never made";
  return absl::StrFormat("push of step %d by trainer %d (%s) was applied %g times", index % steps_,
                         index / steps_, known, count);
}

std::string SimLedger::Check(const std::vector<ShardSnapshot>& images, bool all) const {
  // Shows, clicks and the first value of each row, summed over the servers, by id.
  std::map<int64_t, std::vector<float>> counts;
  std::vector<uint64_t> of_rows(static_cast<size_t>(trainers_), 0);
  for (size_t server = 0; server < images.size(); ++server) {
    const ShardSnapshot& image = images[server];
    std::vector<uint64_t> lost(static_cast<size_t>(trainers_), 0);
    for (const TrainerPushState& mark : image.marks) {
      lost[static_cast<size_t>(mark.trainer)] = mark.lost_pushes;
      of_rows[static_cast<size_t>(mark.trainer)] += mark.lost_pushes;
    }
    for (size_t i = 0; i < image.slices.size(); ++i) {
      const SliceSpec& spec = image.config.slices[i];
      if (spec.variable != "ledger" || IsOffered(image, spec)) continue;
      const std::span<const float> row = ValuesOf(image, i);
      for (size_t slot = 0; slot < row.size(); ++slot) {
        const std::string wrong = CheckSlot(slot, row[slot], all, lost);
        if (!wrong.empty()) return absl::StrFormat("server %d: %s", server, wrong);
      }
    }
    for (const auto& [id, values] : RowsOf(image)) {
      if (IsOffered(image, id)) continue;
      std::vector<float>& sums = counts[id];
      sums.resize(kCounts + 1);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    }
  }
  // Number of pushes of each trainer that may be missing, separately for shows, clicks and the
  // first value.
  std::vector<std::vector<uint64_t>> spare(kCounts + 1, of_rows);
  for (size_t slot = 0; slot < fate_.size(); ++slot) {
    std::vector<float>& sums = counts[RowOf(static_cast<int64_t>(slot))];
    sums.resize(kCounts + 1);
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::string wrong = CheckSlot(slot, sums[i], all, spare[i]);
      if (!wrong.empty()) return absl::StrFormat("rows, number %d: %s", i, wrong);
    }
  }
  return "";
}

std::vector<SimLedger::MissingPushes> SimLedger::Missing(const ShardSnapshot& image) const {
  std::vector<MissingPushes> missing(static_cast<size_t>(trainers_));
  for (size_t i = 0; i < image.slices.size(); ++i) {
    if (image.config.slices[i].variable != "ledger") continue;
    const std::span<const float> row = ValuesOf(image, i);
    for (size_t slot = 0; slot < row.size(); ++slot) {
      if (row[slot] != 0 || fate_[slot] != Fate::kAcknowledged) continue;
      MissingPushes& of = missing[slot / static_cast<size_t>(steps_)];
      ++(forgiven_[slot] ? of.forgiven : of.certain);
    }
  }
  return missing;
}

std::string SimLedger::CheckCut(const std::vector<ShardSnapshot>& images, Time begun, bool repeated,
                                bool rewound) const {
  // For each slot: the value of the slot on each server, followed by the values of the row of the
  // slot.
  std::vector<std::vector<float>> counts(fate_.size());
  std::map<int64_t, std::vector<float>> of_rows;
  std::vector<bool> lost(static_cast<size_t>(trainers_), false);
  for (const ShardSnapshot& image : images) {
    for (const TrainerPushState& mark : image.marks) {
      if (mark.lost_pushes != 0) lost[static_cast<size_t>(mark.trainer)] = true;
    }
    for (size_t i = 0; i < image.slices.size(); ++i) {
      if (image.config.slices[i].variable != "ledger") continue;
      const std::span<const float> row = ValuesOf(image, i);
      for (size_t slot = 0; slot < row.size(); ++slot) counts[slot].push_back(row[slot]);
    }
    for (const auto& [id, values] : RowsOf(image)) {
      std::vector<float>& sums = of_rows[id];
      sums.resize(kCounts + 1);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    }
  }
  for (size_t slot = 0; slot < fate_.size(); ++slot) {
    std::vector<float>& sums = of_rows[RowOf(static_cast<int64_t>(slot))];
    sums.resize(kCounts + 1);
    counts[slot].insert(counts[slot].end(), sums.begin(), sums.end());
    const auto [least, most] = std::minmax_element(counts[slot].begin(), counts[slot].end());
    const auto trainer = static_cast<int64_t>(slot) / steps_;
    const bool known = !rewound && fate_[slot] == Fate::kAcknowledged && !forgiven_[slot] &&
                       !lost[static_cast<size_t>(trainer)];
    const bool before = known && acknowledged_[slot] < begun;
    const bool alike = repeated || !known || *least == *most;
    if (*most <= 1 && alike && (!before || *least == 1)) continue;
    return absl::StrFormat("push of step %d by trainer %d is there %g to %g times%s",
                           static_cast<int64_t>(slot) % steps_, trainer, *least, *most,
                           before ? ", and was acknowledged before the cut was begun" : "");
  }
  return "";
}

SimBatch::SimBatch(uint64_t seed, const SimLedger& ledger)
    : seed_(seed),
      ledger_(ledger),
      ledger_values_(static_cast<size_t>(ledger.servers() * ledger.slots()), 0.0f),
      weights_(static_cast<size_t>(ledger.servers() * kSimWeights)),
      ledger_gradient_(ledger_values_.size(), 0.0f),
      weights_gradient_(weights_.size()),
      row_ids_(2),
      rows_(2 * kSimRowDim),
      row_gradients_(2 * (kCounts + kSimRowDim)),
      fading_ids_(1),
      fading_gradients_(kSimRowDim) {
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] = UniformAt(StreamKey(seed, "weights"), i);
  }
}

void SimBatch::Begin(int trainer, uint64_t step) {
  row_ids_ = {SimLedger::SharedRowOf(step), SimLedger::RowOf(ledger_.SlotOf(trainer, step))};
}

void SimBatch::Compute(int trainer, uint64_t step) {
  std::fill(ledger_gradient_.begin(), ledger_gradient_.end(), 0.0f);
  for (int64_t row = 0; row < ledger_.servers(); ++row) {
    const int64_t slot = row * ledger_.slots() + ledger_.SlotOf(trainer, step);
    ledger_gradient_[static_cast<size_t>(slot)] = -1.0f;
  }
  const uint64_t key = StreamKey(seed_, absl::StrFormat("gradient %d %d", trainer, step));
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_gradient_[i] = NormalAt(key, i) + 0.1f * weights_[i];
  }
  constexpr size_t kWidth = kCounts + kSimRowDim;
  for (size_t row = 0; row < row_ids_.size(); ++row) {
    float* const pushed = row_gradients_.data() + row * kWidth;
    pushed[0] = 1;
    pushed[1] = row == 1 || step % 2 == 0 ? 1 : 0;
    for (size_t i = 0; i < kSimRowDim; ++i) {
      pushed[kCounts + i] =
          NormalAt(key, 1000 + row * kSimRowDim + i) + 0.1f * rows_[row * kSimRowDim + i];
    }
  }
  row_gradients_[kWidth + kCounts] = -1.0f;
  const int64_t turn = static_cast<int64_t>(step) % kFadingSteps;
  fading_ids_[0] = kFirstFading + (turn * ledger_.trainers() + trainer) * 999'983;
  for (size_t i = 0; i < kSimRowDim; ++i) {
    fading_gradients_[i] = NormalAt(key, 2000 + i);
  }
}

ps::PsRows SimBatch::Rows() {
  return {"rows", row_ids_, {rows_.data(), rows_.data() + kSimRowDim}};
}

std::vector<ps::PsConstRows> SimBatch::RowGradients() const {
  std::vector<ps::PsConstRows> all = {{"rows", row_ids_, row_gradients_.data()}};
  if (ledger_.fading()) all.push_back({"fading", fading_ids_, fading_gradients_.data()});
  return all;
}

std::vector<ps::PsTensor> SimBatch::Parameters() {
  return {{"ledger", ledger_values_.data(), static_cast<int64_t>(ledger_values_.size())},
          {"weights", weights_.data(), static_cast<int64_t>(weights_.size())}};
}

std::vector<ps::PsConstTensor> SimBatch::Gradients() const {
  return {{"ledger", ledger_gradient_.data(), static_cast<int64_t>(ledger_gradient_.size())},
          {"weights", weights_gradient_.data(), static_cast<int64_t>(weights_gradient_.size())}};
}

std::map<uint64_t, std::vector<float>> WeightsOf(const ShardSnapshot& image,
                                                 const std::string& table) {
  std::map<uint64_t, std::vector<float>> rows;
  for (size_t t = 0; t < image.tables.size(); ++t) {
    if (image.config.tables[t].variable != table) continue;
    for (const auto& [bucket, values] : image.tables[t].buckets) {
      const float* content = values.content.data();
      for (size_t i = 0; i < values.ids.size(); ++i) {
        const auto id = static_cast<int64_t>(values.ids[i]);
        const bool brief = !values.use.empty() && values.use[i].brief;
        const float* const end = content + (brief ? 1 : kSimRowDim);
        if (!IsOffered(image, id)) rows[values.ids[i]].assign(content, end);
        content = end;
      }
    }
  }
  for (auto& [id, weights] : rows) weights.resize(kSimRowDim);
  return rows;
}

std::vector<float> SlicesOf(const ShardSnapshot& image) {
  std::vector<float> all;
  for (size_t i = 0; i < image.slices.size(); ++i) {
    const std::span<const float> values = ValuesOf(image, i);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

namespace {

void Append(const LedgerRows& rows, std::vector<float>& all) {
  for (const auto& [id, values] : rows) {
    all.push_back(static_cast<float>(id));
    all.insert(all.end(), values.begin(), values.end());
  }
}

}  // namespace

std::vector<float> ParametersOf(const ShardSnapshot& image) {
  std::vector<float> all = SlicesOf(image);
  Append(RowsOf(image), all);
  return all;
}

std::vector<float> ParametersOfAll(const std::vector<ShardSnapshot>& images) {
  LedgerRows rows;
  SliceMap slices;
  for (const ShardSnapshot& image : images) {
    for (const auto& [id, values] : RowsOf(image)) {
      if (!IsOffered(image, id)) rows[id] = values;
    }
    for (size_t i = 0; i < image.slices.size(); ++i) {
      const SliceSpec& spec = image.config.slices[i];
      const std::span<const float> values = ValuesOf(image, i);
      if (IsOffered(image, spec)) continue;
      slices[{spec.variable, spec.offset}] = {values.begin(), values.end()};
    }
  }
  std::vector<float> all;
  for (const auto& [slice, values] : slices) all.insert(all.end(), values.begin(), values.end());
  Append(rows, all);
  return all;
}

std::string CheckOrder(const ShardSnapshot& image, const SimDisk& disk) {
  const ShardSnapshot& base = *disk.base();
  SliceMap params;
  for (size_t i = 0; i < base.slices.size(); ++i) {
    const std::span<const float> values = ValuesOf(base, i);
    params[{base.config.slices[i].variable, base.config.slices[i].offset}] = {values.begin(),
                                                                              values.end()};
  }
  LedgerRows rows = RowsOf(base);
  RecordedMoves moves(base);
  for (const LogEntry& entry : disk.History()) {
    if (const auto* const move = std::get_if<MoveRecord>(&entry.record)) {
      moves.Make(*move, rows, params);
    }
    const auto* const push = std::get_if<PushRecord>(&entry.record);
    if (push == nullptr) continue;
    const float rate = push->head.learning_rate;
    for (size_t i = 0; i < push->head.slices.size(); ++i) {
      const PushHead::Slice& slice = push->head.slices[i];
      if (slice.variable == "fading") {
        ++i;  // ids and gradients are two values
        continue;
      }
      if (slice.variable != "rows") {
        Update(Floats(push->values[i], slice.desc.shape.numel()), rate,
               params[{slice.variable, slice.offset}]);
        continue;
      }
      const auto* const ids = reinterpret_cast<const int64_t*>(push->values[i].get());
      const int64_t count = slice.desc.shape[0];
      constexpr size_t kWidth = kCounts + kSimRowDim;
      const std::span<const float> values =
          Floats(push->values[++i], count * static_cast<int64_t>(kWidth));
      for (int64_t r = 0; r < count; ++r) {
        UpdateRow(values.subspan(static_cast<size_t>(r) * kWidth, kWidth), rate, rows[ids[r]]);
      }
    }
  }
  // The recorded order says nothing about the table "fading".
  if (RowsOf(image) != rows) return "rows are not what the recorded order gives";
  for (size_t i = 0; i < image.slices.size(); ++i) {
    const SliceSpec& spec = image.config.slices[i];
    const std::vector<float>& p = params[{spec.variable, spec.offset}];
    if (std::memcmp(p.data(), image.slices[i].param.get(), p.size() * sizeof(float)) == 0) continue;
    return absl::StrFormat("%s at element %d is not what the recorded order gives", spec.variable,
                           spec.offset);
  }
  return "";
}

}  // namespace tandem::pserver
