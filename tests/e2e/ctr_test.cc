// Tests tables with table_rules accessor=ctr in whole jobs: DeepFM on generated clicks.
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

constexpr int kColumns = 6, kIds = 4000;
constexpr char kJob[] = R"(
name: "ctr"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "6" }
  arg { name: "rows" value: "ROWS" }
  arg { name: "dim" value: "64" }
  arg { name: "hidden" value: "32" }
  arg { name: "distributed" value: "1" }
  arg { name: "table_rules" value: "RULES" }
}
data {
  format: "csv"
  dir: "."
  csv {
    train_file: "train.csv"
    test_file: "test.csv"
    label_column: "click"
    positive_label: "1"
    negative_label: "0"
    COLUMNS
  }
}
optimizer { type: "adagrad" learning_rate: 0.05 }
global_batch_size: 128
epochs: 1
)";
constexpr char kRules[] = "accessor=ctr embedx_threshold=3";

class CtrTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    std::mt19937 dice(7);
    std::normal_distribution<double> normal;
    weights_.resize(kColumns);
    for (auto& column : weights_) {
      for (int i = 0; i < kIds; ++i) column.push_back(normal(dice));
    }
    Write("train.csv", Clicks(dice, 20000));
    Write("test.csv", Clicks(dice, 5000));
  }
  // Generates records. The probability of a click is the logistic function of the sum of the
  // weights of the record's ids. Only a few ids are frequent.
  std::string Clicks(std::mt19937& dice, int records) const {
    std::uniform_real_distribution<double> uniform;
    std::string text = "click";
    for (int c = 0; c < kColumns; ++c) text += absl::StrFormat(",c%d", c);
    for (int i = 0; i < records; ++i) {
      double logit = -1;
      std::string ids;
      for (int c = 0; c < kColumns; ++c) {
        const int id = static_cast<int>(kIds * std::pow(uniform(dice), 6));
        logit += weights_[static_cast<size_t>(c)][static_cast<size_t>(id)];
        ids += absl::StrFormat(",%d", id);
      }
      text += absl::StrFormat("\n%d%s", uniform(dice) < 1 / (1 + std::exp(-logit)), ids);
    }
    return text + "\n";
  }
  void WriteJob(const std::string& rules, const std::string& more = "",
                const std::string& rows = "1099511627776") const {
    std::string columns, job = kJob;
    for (int c = 0; c < kColumns; ++c) {
      columns += absl::StrFormat("column { name: \"c%d\" kind: HASH ids: %d }\n", c, kIds);
    }
    job.replace(job.find("COLUMNS"), 7, columns);
    job.replace(job.find("RULES"), 5, rules);
    job.replace(job.find("ROWS"), 4, rows);
    Write("job.pbtxt", job + more);
  }
  std::string RowsOf(const std::string& name) const {
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(Path(name))) {
      newest = std::max(newest, entry.path().string());
    }
    return ReadWholeFile(newest + "/tables.rows");
  }

  std::vector<std::vector<double>> weights_;  // weights of the generated data, by column and id
};

TEST_F(CtrTest, LearnsAsWellInLessMemory) {
  WriteJob("");
  const JobRun common = RunJob("common", {"--servers=1", "--workers=2"}, {});
  WriteJob(kRules);
  const JobRun ctr = RunJob("ctr", {"--servers=1", "--workers=2"}, {});
  ASSERT_FALSE(HasFailure());
  EXPECT_GT(common.result.auc, 0.7);
  EXPECT_GT(ctr.result.auc, common.result.auc - 0.005);
  const auto& with = ctr.result.counts;
  const auto& without = common.result.counts;
  EXPECT_LT(with.at("ps.row_bytes"), 0.5 * without.at("ps.row_bytes"));
  EXPECT_EQ(with.at("ps.rows"), without.at("ps.rows"));
  EXPECT_GT(with.at("ps.rows_extended"), 0.02 * with.at("ps.rows"));
  EXPECT_LT(with.at("ps.rows_extended"), 0.5 * with.at("ps.rows"));
  EXPECT_EQ(without.at("ps.rows_extended"), without.at("ps.rows"));
  std::printf("AUC %.4f, without %.4f; %.0f rows, of which %.0f extended, %.2f MB, without %.2f\n",
              ctr.result.auc, common.result.auc, with.at("ps.rows"), with.at("ps.rows_extended"),
              with.at("ps.row_bytes") / 1e6, without.at("ps.row_bytes") / 1e6);
}

// A job on one server, and a job that begins on two servers and resumes on three, give the same
// rows with the same counts.
TEST_F(CtrTest, CountsGoOnOnAnotherNumberOfServers) {
  WriteJob(std::string(kRules) + " shrink_every=40 decay=0.9 shrink_score=0.15");
  const auto run = [&](const std::string& name, const std::string& servers, int steps) {
    return RunJob(name, {servers, "--workers=2"},
                  {"--steps_max=" + std::to_string(steps), "--checkpoint.dir=" + Path(name)})
        .result;
  };
  const JobResult whole = run("whole", "--servers=1", 120);
  run("parts", "--servers=2", 60);
  const JobResult second = run("parts", "--servers=3", 120);
  EXPECT_EQ(second.params_sha256, whole.params_sha256);
  EXPECT_EQ(second.auc, whole.auc);
  EXPECT_GT(RowsOf("whole").size(), 100'000u);
  EXPECT_EQ(RowsOf("parts"), RowsOf("whole"));
}

// A killed server recovers every count. The rows have the same bytes as without kills.
TEST_F(CtrTest, KillsLoseAndDoubleNoCount) {
  WriteJob(kRules);
  const auto args = [&](const std::string& name) {
    return std::vector<std::string>{"--steps_max=400", "--epochs=10", "--log_every_steps=1",
                                    "--checkpoint.dir=" + Path(name)};
  };
  const JobRun quiet = RunJob("quiet", {"--servers=2", "--workers=2"}, args("of_quiet"));
  const auto job = StartJob(
      "killed",
      {"--servers=2", "--workers=2", "--max_restarts=10", "--pserver_data_dir=" + Path("data")},
      args("of_killed"));
  for (const int step : {20, 60, 100}) {
    ASSERT_TRUE(job->WaitForText("step=" + std::to_string(step) + " ")) << job->Output();
    const std::vector<pid_t> servers = ChildrenOf(job->pid(), "tandem-pserver");
    ASSERT_FALSE(servers.empty());
    kill(servers[static_cast<size_t>(step) % servers.size()], SIGKILL);
  }
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("restarting it"));
  const JobResult killed = ResultOf("killed");
  EXPECT_EQ(killed.params_sha256, quiet.result.params_sha256);
  EXPECT_EQ(killed.auc, quiet.result.auc);
  EXPECT_EQ(RowsOf("of_killed"), RowsOf("of_quiet"));
}

TEST_F(CtrTest, LearnsInEveryRegime) {
  WriteJob(kRules);
  const JobRun sync = RunJob("sync", {"--servers=2", "--workers=1"}, {});
  for (const std::string regime : {"half_async: true", "max_merge_var_num: 2"}) {
    SCOPED_TRACE(regime);
    WriteJob(kRules, "strategy { a_sync: true a_sync_configs { " + regime + " } }\n");
    const JobRun one = RunJob("one", {"--servers=2", "--workers=1"}, {});
    EXPECT_NEAR(one.result.auc, sync.result.auc, 0.05);
    // The counts of shows and clicks do not depend on the merging of pushes.
    for (const char* count : {"ps.rows", "ps.rows_extended"}) {
      EXPECT_EQ(one.result.counts.at(count), sync.result.counts.at(count)) << count;
    }
    const JobRun two = RunJob("two", {"--servers=2", "--workers=2"}, {});
    EXPECT_NEAR(two.result.auc, sync.result.auc, 0.05);
    const JobRun hybrid = RunJob("hybrid", {"--mode=hybrid", "--servers=2", "--workers=2"}, {});
    EXPECT_NEAR(hybrid.result.auc, sync.result.auc, 0.05);
  }
}

TEST_F(CtrTest, WhatItCannotDoIsRefusedByName) {
  const auto expect = [&](const std::vector<std::string>& launch,
                          const std::vector<std::string>& args, const std::string& words) {
    const auto job = StartJob("refused", launch, args);
    EXPECT_NE(job->Wait(), 0);
    EXPECT_THAT(job->Output(), HasSubstr(words));
  };
  const std::vector<std::string> servers = {"--servers=1", "--workers=1"};
  WriteJob(kRules, "", "24000");
  expect({"--mode=local"}, {}, "has table_rules");
  expect({"--mode=collective", "--nproc=2"}, {}, "has table_rules");
  expect(servers, {"--a_sync=true", "--a_sync_configs.k_steps=4"}, "has table_rules");
  expect(servers, {"--optimizer.type=adam"}, "which accessor=ctr does not support");
  WriteJob("embedx_threshold=2");
  expect(servers, {}, "no effect without accessor=ctr");
}

}  // namespace
}  // namespace tandem
