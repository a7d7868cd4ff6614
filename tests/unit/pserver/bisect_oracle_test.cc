// Compares tandem bisect with a search that looks at the whole state after each log entry, for
// random logs and conditions.
#include <random>

#include "pserver/rocksdb/store_reader.h"
#include "pserver/shard/state_replay.h"
#include "tests/unit/pserver/bisect_fixture.h"

namespace tandem::pserver {
namespace {

using Kind = StateCondition::Kind;

double NormOf(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

bool AnyNonfinite(std::span<const float> values) {
  return std::ranges::any_of(values, [](float v) { return !std::isfinite(v); });
}

bool AnyAbove(std::span<const float> values, double limit) {
  return std::ranges::any_of(values, [limit](float v) { return !(std::fabs(v) <= limit); });
}

bool HoldsInSlices(const ShardSnapshot& image, const StateCondition& condition) {
  std::map<std::string, double> squares;
  for (size_t i = 0; i < image.slices.size(); ++i) {
    const SliceSpec& spec = image.config.slices[i];
    if (!condition.variable.empty() && spec.variable != condition.variable) continue;
    const auto values = Floats(image.slices[i].param, spec.numel);
    if (condition.kind == Kind::kAbove && AnyAbove(values, condition.limit)) return true;
    if (condition.kind == Kind::kNormAbove) squares[spec.variable] += std::pow(NormOf(values), 2);
    if (condition.kind != Kind::kNonfinite) continue;
    if (AnyNonfinite(values)) return true;
    for (const SliceSnapshot::Slot& slot : image.slices[i].slots) {
      if (AnyNonfinite(Floats(slot.values, slot.numel))) return true;
    }
  }
  return std::ranges::any_of(
      squares, [&](const auto& s) { return !(std::sqrt(s.second) <= condition.limit); });
}

bool HoldsInRows(const ShardSnapshot& image, const StateCondition& condition, size_t dim) {
  for (const auto& [bucket, rows] : image.tables[0].buckets) {
    if (rows.ids.empty()) continue;
    const size_t width = rows.content.size() / rows.ids.size();
    for (size_t i = 0; i < rows.ids.size(); ++i) {
      if (condition.id && rows.ids[i] != *condition.id) continue;
      const auto row = std::span(rows.content).subspan(i * width, width);
      if (condition.kind == Kind::kNonfinite && AnyNonfinite(row)) return true;
      if (condition.kind == Kind::kAbove && AnyAbove(row.first(dim), condition.limit)) return true;
      if (condition.kind == Kind::kNormAbove && !(NormOf(row.first(dim)) <= condition.limit)) {
        return true;
      }
    }
  }
  if (condition.kind != Kind::kNonfinite || condition.id) return false;
  return std::ranges::any_of(image.tables[0].scalars,
                             [](const auto& s) { return !std::isfinite(s.second); });
}

class BisectOracleTest : public BisectTest {
 protected:
  static bool Holds(const ShardSnapshot& image, const StateCondition& condition) {
    return (condition.table.empty() && HoldsInSlices(image, condition)) ||
           (condition.variable.empty() && HoldsInRows(image, condition, kDim));
  }
  // Returns the first version from which the condition holds; nullopt: it never holds.
  std::optional<uint64_t> FirstVersion(const StateCondition& condition) {
    const auto reader = *StoreReader::Open(DirOf(0));
    const StoreReader::State oldest = reader->States()->front();
    StateReplay replay(0, backend_, device_);
    CHECK(replay
              .Begin([&](SnapshotSink& sink) { return reader->Read(oldest, sink); },
                     oldest.log_number)
              .ok());
    std::optional<uint64_t> first;
    if (Holds(*replay.Snapshot(), condition)) first = replay.version();
    const Status scanned = reader->ScanLog(oldest.log_number + 1, [&](ScannedEntry e) -> Status {
      TD_RETURN_IF_ERROR(replay.Add(std::move(e.entry)));
      if (!first && Holds(*replay.Snapshot(), condition)) first = replay.version();
      return OkStatus();
    });
    CHECK(scanned.ok()) << scanned;
    return first;
  }
  // Writes a random log of `steps` pushes of each of two trainers.
  void WriteLog(UpdatePolicy mode, const std::string& optimizer, int steps, std::mt19937& dice) {
    Start(2, mode, optimizer);
    sequences_.clear();
    std::normal_distribution<float> gradient;
    std::lognormal_distribution<float> scale(0, 2);
    for (int step = 0; step < steps; ++step) {
      for (const int trainer : {0, 1}) {
        Rows rows;
        while (dice() % 4 != 0) rows[dice() % 12] = gradient(dice) * scale(dice);
        const bool bad = dice() % 40 == 0;
        if (bad && !rows.empty()) rows.begin()->second = dice() % 2 == 0 ? NAN : INFINITY;
        PushOf(trainer, bad && rows.empty() ? NAN : gradient(dice) * scale(dice), rows);
      }
      if (step == steps / 4) Snapshot(1);
      if (step == steps / 3) {
        ASSERT_TRUE(durable_->Save().ok());
      }
    }
    Kill();
  }
  static StateCondition RandomCondition(std::mt19937& dice) {
    StateCondition condition{.kind = static_cast<Kind>(dice() % 3)};
    condition.limit = std::exp(static_cast<double>(dice() % 60) / 10);
    switch (dice() % 4) {
      case 0:
        condition.variable = dice() % 2 == 0 ? "fc_0.w" : "fc_0.b";
        break;
      case 1:
        condition.table = "emb";
        if (dice() % 2 == 0) condition.id = dice() % 12;
        break;
      default:
        break;
    }
    return condition;
  }
};

TEST_F(BisectOracleTest, TheFirstPushIsThatOfASearchThroughEveryState) {
  std::mt19937 dice(20261130);
  int after_push = 0, at_start = 0, never = 0;
  for (const char* optimizer : {"sgd", "adagrad", "momentum", "adam"}) {
    for (const UpdatePolicy mode : {UpdatePolicy::kSync, UpdatePolicy::kASync}) {
      WriteLog(mode, optimizer, 24, dice);
      ASSERT_FALSE(HasFailure());
      for (int n = 0; n < 12; ++n) {
        const StateCondition condition = RandomCondition(dice);
        const std::optional<uint64_t> expected = FirstVersion(condition);
        const ServerBisection found = Bisect(condition);
        const std::string where = absl::StrFormat(
            "%s, mode %d, kind %d, limit %g, \"%s\", \"%s\", row %d", optimizer,
            static_cast<int>(mode), static_cast<int>(condition.kind), condition.limit,
            condition.variable, condition.table, condition.id.value_or(999));
        if (!expected) {
          EXPECT_EQ(found.result, Result::kNever) << where;
          ++never;
          continue;
        }
        ASSERT_NE(found.result, Result::kNever) << where;
        EXPECT_EQ(found.version, *expected) << where;
        EXPECT_FALSE(found.values.empty()) << where;
        ++(found.result == Result::kAtStart ? at_start : after_push);
      }
      std::filesystem::remove_all(dir_);
    }
  }
  EXPECT_GT(after_push, 20);
  EXPECT_GT(at_start, 0);
  EXPECT_GT(never, 5);
}

}  // namespace
}  // namespace tandem::pserver
