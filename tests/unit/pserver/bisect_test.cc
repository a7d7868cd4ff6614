// Tests that tandem bisect names the push after which a condition holds.
#include "pserver/history/bisect.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "pserver/log_files/log_files.h"
#include "tests/unit/pserver/bisect_fixture.h"

namespace tandem::pserver {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = StateCondition::Kind;

TEST_F(BisectTest, ThePushWithNaNIsNamed) {
  Start(2, UpdatePolicy::kASync);
  for (int i = 0; i < 5; ++i) {
    PushOf(0, 0.1f, {{7, 0.5f}, {9, 0.25f}});
    PushOf(1, 0.1f, {{7, 0.25f}});
  }
  PushOf(1, 0.1f, {{4, 1}, {7, NAN}, {9, 1}});
  PushOf(0, NAN, {{4, NAN}});
  Kill();
  const ServerBisection found = Bisect({});
  EXPECT_EQ(found.result, Result::kAfterPush);
  EXPECT_EQ(found.version, 11u);
  EXPECT_EQ(found.replayed, 11u);
  EXPECT_EQ(found.from.version, 0u);
  ASSERT_EQ(found.pushes.size(), 1u);
  const SuspectPush& push = found.pushes[0];
  EXPECT_EQ(push.facts.trainer, 1);
  EXPECT_EQ(push.facts.sequence, 6u);
  EXPECT_EQ(push.facts.step, 5u);
  EXPECT_EQ(push.facts.incarnation, kIncarnation);
  EXPECT_EQ(push.facts.entry, found.last_entry);
  EXPECT_GT(push.facts.time_us, 0);
  ASSERT_TRUE(push.gradient_norm.has_value());
  EXPECT_TRUE(std::isnan(*push.gradient_norm));
  EXPECT_EQ(found.matches, 1u);
  ASSERT_EQ(found.values.size(), 1u);
  const BisectValues& values = found.values[0];
  EXPECT_TRUE(values.match.is_row);
  EXPECT_EQ(values.match.variable, "emb");
  EXPECT_EQ(values.match.id, 7u);
  EXPECT_EQ(values.match.element, 0);
  EXPECT_TRUE(std::isnan(values.match.value));
  // The initial value is in [-0.1, 0.1], and the gradients before sum to 3.75.
  ASSERT_TRUE(values.before.has_value());
  EXPECT_NEAR(*values.before, -3.75, 0.11);
  ASSERT_EQ(values.row_before.size(), 2u);
  EXPECT_FLOAT_EQ(values.row_before[0], static_cast<float>(*values.before));
  ASSERT_EQ(values.row_after.size(), 2u);
  EXPECT_TRUE(std::isnan(values.row_after[1]));

  // The dense variable is damaged by the next push.
  const ServerBisection dense = Bisect({.variable = "fc_0.w"});
  EXPECT_EQ(dense.version, 12u);
  ASSERT_EQ(dense.values.size(), 2u) << "both slices";
  EXPECT_EQ(dense.values[1].match.element, 4);
  EXPECT_NEAR(dense.values[1].before.value_or(0), 1 - 1.1, 1e-5);
  EXPECT_EQ(dense.pushes[0].facts.trainer, 0);
  EXPECT_EQ(Bisect({.table = "emb", .id = 4}).version, 12u);
  EXPECT_EQ(Bisect({.table = "emb", .id = 9}).result, Result::kNever);
}

TEST_F(BisectTest, TheTrainerWithTheLargestGradientOfTheStepComesFirst) {
  Start(3, UpdatePolicy::kSync);
  for (uint64_t step = 0; step < 6; ++step) {
    PushOf(0, 0.1f, {{7, 0.5f}});
    PushOf(2, 0.1f, {{7, step == 4 ? -5000.0f : 0.25f}});
    PushOf(1, 0.1f, {{8, 1}});
  }
  Kill();
  const ServerBisection found =
      Bisect({.kind = Kind::kNormAbove, .limit = 1000, .table = "emb", .id = 7});
  EXPECT_EQ(found.result, Result::kAfterPush);
  EXPECT_EQ(found.version, 5u);
  ASSERT_EQ(found.pushes.size(), 3u);
  EXPECT_EQ(found.pushes[0].facts.trainer, 2);
  EXPECT_EQ(found.pushes[0].facts.step, 4u);
  EXPECT_NEAR(found.pushes[0].gradient_norm.value_or(0), 5000 * std::sqrt(2.0), 0.1);
  EXPECT_EQ(found.pushes[1].facts.trainer, 0);
  EXPECT_FALSE(found.pushes[2].gradient_norm.has_value()) << "trainer 1 did not push the row";
  ASSERT_EQ(found.values.size(), 1u);
  EXPECT_LT(found.values[0].before.value_or(1e9), 10);
  EXPECT_GT(found.values[0].match.value, 1000);
  EXPECT_EQ(found.oldest_step, std::optional<uint64_t>(0));

  const auto job = BisectJob(dir_, {.kind = Kind::kAbove, .limit = 1000});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->sync);
  EXPECT_EQ(job->earliest, 0);
  EXPECT_EQ(job->restore_step, std::optional<uint64_t>(4));
}

TEST_F(BisectTest, GradientsOfAReplacedTrainerAreNoSuspects) {
  Start(2, UpdatePolicy::kSync);
  PushOf(0, 0.1f, {{7, 0.5f}});
  PushOf(1, 0.1f, {{7, 0.5f}});
  PushOf(1, 0.1f, {{7, -9000}});  // its trainer dies before the step is complete
  incarnation_ = kIncarnation + 1;
  sequences_[1] = 0;
  PushOf(1, 0.1f, {{7, -500}}, 1);
  incarnation_ = kIncarnation;
  PushOf(0, 0.1f, {{7, 0.5f}});
  Kill();
  const ServerBisection found = Bisect({.kind = Kind::kAbove, .limit = 100});
  EXPECT_EQ(found.version, 2u);
  ASSERT_EQ(found.pushes.size(), 2u);
  EXPECT_EQ(found.pushes[0].facts.incarnation, kIncarnation + 1);
}

TEST_F(BisectTest, AStateInWhichTheConditionHoldsFromTheStart) {
  Start(1, UpdatePolicy::kASync);
  PushOf(0, 0.1f, {{7, 5000}});
  Snapshot(3);
  PushOf(0, 0.1f, {{7, 1}});
  ASSERT_TRUE(durable_->Save().ok());
  Kill();
  const StateCondition condition{.kind = Kind::kAbove, .limit = 1000};
  const ServerBisection found = Bisect(condition);
  EXPECT_EQ(found.result, Result::kAtStart);
  EXPECT_EQ(found.from.number, 3u);
  EXPECT_EQ(found.from.version, 1u);
  EXPECT_EQ(found.replayed, 0u);
  EXPECT_TRUE(found.pushes.empty());
  ASSERT_EQ(found.values.size(), 1u);
  EXPECT_EQ(found.values[0].match.id, 7u);
  const auto job = BisectJob(dir_, condition);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->earliest, 0);
  EXPECT_FALSE(job->restore_step.has_value());
  EXPECT_FALSE(job->restore_snapshot.has_value()) << "the snapshot has the condition";
}

TEST_F(BisectTest, AConditionThatNeverHoldsHasItsRange) {
  Start(1, UpdatePolicy::kASync, "adam");
  for (int i = 0; i < 8; ++i) PushOf(0, 0.1f, {{7, 1}});
  Kill();
  const ServerBisection found = Bisect({});
  EXPECT_EQ(found.result, Result::kNever);
  EXPECT_EQ(found.replayed, 8u);
  EXPECT_EQ(found.version, 8u);
  EXPECT_LE(found.first_entry + 7, found.last_entry);
  EXPECT_GT(found.begin_us, 0);
  EXPECT_TRUE(found.values.empty());
  const auto job = BisectJob(dir_, {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->earliest, -1);
}

// Without --log_keep_mb the log begins after the checkpoint.
TEST_F(BisectTest, ATruncatedLogBeginsAtTheCheckpoint) {
  Open(0, /*keep=*/0);
  Configure(1, UpdatePolicy::kASync);
  PushOf(0, 0.1f, {{7, 5000}});
  ASSERT_TRUE(durable_->Save().ok());
  const StateCondition condition{.kind = Kind::kAbove, .limit = 1000};
  Kill();
  EXPECT_EQ(Bisect(condition).result, Result::kAtStart);
  EXPECT_EQ(Bisect({}).result, Result::kNever);
  EXPECT_EQ(Bisect({}).first_entry, 0u) << "no entry follows the checkpoint";
  Open(0, 0);
  PushOf(0, 0.1f, {{8, 1}});
  PushOf(0, 0.1f, {{8, 5000}});
  Kill();
  const ServerBisection found =
      Bisect({.kind = Kind::kAbove, .limit = 1000, .table = "emb", .id = 8});
  EXPECT_EQ(found.result, Result::kAfterPush);
  EXPECT_EQ(found.from.version, 1u);
  EXPECT_EQ(found.replayed, 2u);
  EXPECT_EQ(found.version, 3u);
}

TEST_F(BisectTest, PushesThatARestoreUndidDoNotCount) {
  Start(1, UpdatePolicy::kASync);
  Snapshot(1);
  PushOf(0, 0.1f, {{7, 1}});
  PushOf(0, 0.1f, {{7, 1}});
  Snapshot(2);
  PushOf(0, 0.1f, {{7, 5000}});
  ASSERT_TRUE(durable_->Restore(2).ok());
  incarnation_ = kIncarnation + 1;
  sequences_.clear();
  PushOf(0, 0.1f, {{7, 1}});
  Kill();
  const StateCondition condition{.kind = Kind::kAbove, .limit = 1000};
  const ServerBisection never = Bisect(condition);
  EXPECT_EQ(never.result, Result::kNever);
  EXPECT_EQ(never.replayed, 3u);
  EXPECT_EQ(never.version, 3u);
  Open();
  PushOf(0, 0.1f, {{7, 1}});
  Snapshot(3);
  PushOf(0, 0.1f, {{9, 7000}});
  Kill();
  const ServerBisection found = Bisect(condition);
  EXPECT_EQ(found.result, Result::kAfterPush);
  EXPECT_EQ(found.version, 5u);
  EXPECT_EQ(found.values.at(0).match.id, 9u);
  EXPECT_NEAR(found.values.at(0).before.value_or(0), 0, 0.11) << "the initial value";
  const auto job = BisectJob(dir_, condition);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->restore_step.has_value()) << "a_sync mode has no common steps";
  EXPECT_EQ(job->restore_snapshot, std::optional<uint64_t>(3));
}

// Momentum moves a row without a gradient.
TEST_F(BisectTest, ARowMovesWithoutAPush) {
  Start(1, UpdatePolicy::kASync, "momentum");
  PushOf(0, 0, {{7, -10}});
  for (int i = 0; i < 6; ++i) PushOf(0, 0, {{8, 1}});
  Kill();
  const ServerBisection found =
      Bisect({.kind = Kind::kAbove, .limit = 25, .table = "emb", .id = 7});
  EXPECT_EQ(found.result, Result::kAfterPush);
  EXPECT_EQ(found.version, 3u) << "10 + 19 after two more updates with mu 0.9";
  ASSERT_EQ(found.pushes.size(), 1u);
  EXPECT_FALSE(found.pushes[0].gradient_norm.has_value());
  EXPECT_NEAR(found.values.at(0).before.value_or(0), 19, 0.2);
}

TEST_F(BisectTest, TheServerWithTheEarliestFindingIsNamed) {
  for (const UpdatePolicy mode : {UpdatePolicy::kSync, UpdatePolicy::kASync}) {
    for (const int server : {0, 1}) {
      Open(server);
      Configure(1, mode);
      sequences_.clear();
      for (int i = 0; i < 10; ++i) {
        PushOf(0, 0.1f, {{7, i == (server == 0 ? 6 : 3) ? 5000.0f : 1.0f}});
      }
      Kill();
    }
    const auto job = BisectJob(dir_, {.kind = Kind::kAbove, .limit = 1000});
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->servers.at(0).version, 7u);
    EXPECT_EQ(job->servers.at(1).version, 4u);
    EXPECT_EQ(job->earliest, mode == UpdatePolicy::kSync ? 1 : 0);
    EXPECT_EQ(job->restore_step.value_or(99), mode == UpdatePolicy::kSync ? 3u : 99u);
    std::filesystem::remove_all(dir_);
  }
}

// The log of a server, whose entries a test removes or changes.
class ChangedLog {
 public:
  explicit ChangedLog(std::string dir) : dir_(std::move(dir)) {
    for (const auto& file : std::filesystem::directory_iterator(dir_)) {
      uint64_t first = 0;
      if (ParseLogFileName(file.path().filename().string(), &generation_, &first)) break;
    }
    const Status read = ReadLogFiles(*OpenLogFiles(dir_, generation_), 1, [&](const LogFrame& f) {
      payloads.emplace_back(f.payload);
      return OkStatus();
    });
    CHECK(read.ok()) << read;
  }
  // Replaces the log by some of its entries.
  void Write(const std::vector<uint64_t>& numbers) const {
    { CHECK(LogFiles(dir_, 1).Open(generation_ + 1).ok()); }  // removes the files
    LogFiles files(dir_, uint64_t{1} << 30);
    CHECK(files.Open(generation_).ok());
    for (const uint64_t number : numbers) {
      const LogPayload payload{number, {payloads[number - 1]}};
      CHECK(files.Append({&payload, 1}, 1, false).ok());
    }
  }

  std::vector<std::string> payloads;  // entry 1 first

 private:
  const std::string dir_;
  uint64_t generation_ = 0;
};

TEST_F(BisectTest, BadInputIsNamed) {
  Start(1, UpdatePolicy::kASync);
  PushOf(0, 0.1f, {{7, 1}});
  PushOf(0, 0.1f, {{7, 1}});
  PushOf(0, 0.1f, {{7, 1}});
  Kill();
  const auto message = [this](const StateCondition& condition, StatusCode code) {
    const Status status = BisectJob(dir_, condition).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message({.variable = "fc_0.ww"}, StatusCode::kNotFound),
              HasSubstr("no pserver has a dense variable \"fc_0.ww\" [TD7008]; hint: did you mean "
                        "\"fc_0.w\"?"));
  EXPECT_THAT(message({.table = "fc_0.w"}, StatusCode::kNotFound),
              HasSubstr("no pserver has a table \"fc_0.w\" [TD7008]; hint: use --var=fc_0.w"));
  EXPECT_THAT(message({.variable = "emb"}, StatusCode::kNotFound),
              HasSubstr("hint: use --table=emb"));
  EXPECT_EQ(BisectServer(dir_ + "/none", 0, {}).status().code(), StatusCode::kNotFound);

  ChangedLog log(DirOf(0));
  ASSERT_GE(log.payloads.size(), 3u);
  log.Write({1, 3, 4});
  EXPECT_THAT(message({}, StatusCode::kDataLoss), HasSubstr("lacks entry 2"));

  std::string& second = log.payloads[1];
  second[second.size() / 2] ^= 1;
  log.Write({1, 2, 3});
  EXPECT_THAT(message({}, StatusCode::kDataLoss), HasSubstr("[TD2118]"));

  log.Write({3, 4});  // the log begins after the only state
  EXPECT_THAT(message({}, StatusCode::kFailedPrecondition),
              HasSubstr("the log begins with entry 3, and no stored state is as old"));
}

TEST_F(BisectTest, ADeltaIsNoStateToBeginWith) {
  Start(1, UpdatePolicy::kASync);
  ASSERT_TRUE(durable_->Save().ok());
  PushOf(0, 0.1f, {{7, 1}});
  ASSERT_TRUE(durable_->Save(/*delta=*/true).ok());
  Kill();
  const Status status = BisectServer(DirOf(0), 0, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the checkpoint is a delta"));
}

TEST_F(BisectTest, AServerWithoutInitialValues) {
  Open();
  Kill();
  EXPECT_FALSE(BisectServer(DirOf(0), 0, {})->has_value());
  const Status status = BisectJob(dir_, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[TD4011]"));
}

}  // namespace
}  // namespace tandem::pserver
