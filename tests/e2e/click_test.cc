// Tests jobs with networks on categorical columns of a csv file. Every mode must give the same
// bits.
#include <signal.h>

#include <filesystem>
#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

constexpr char kJob[] = R"(
name: "click"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "3" }
  arg { name: "rows" value: "45" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "16" }
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
    column { name: "user" ids: 22 }
    column { name: "item" kind: HASH ids: 13 }
    column { name: "age" kind: NUMERIC ids: 10 }
  }
  max_bad_records: 1
}
optimizer { type: "adam" learning_rate: 0.01 }
global_batch_size: 64
epochs: 4
)";

const std::vector<std::string> kOneEpoch = {"--epochs=1"};

class ClickTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    Write("job.pbtxt", kJob);
    Write("train.csv", Table(0, 2000) + "u1,i1,none,1\n");
    Write("test.csv", Table(2000, 3000));
  }
  // Returns kJob with sparse gradients. Replaces the first occurrence of each `from` by `to`.
  static std::string SparseJob(const std::map<std::string, std::string>& changes) {
    std::string job = kJob;
    job.replace(job.find("model {"), 7, "model { arg { name: \"sparse\" value: \"1\" }");
    for (const auto& [from, to] : changes) job.replace(job.find(from), from.size(), to);
    return job;
  }
  // Returns the newest checkpoint in the directory `name`.
  std::string Newest(const std::string& name) const {
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/" + name)) {
      newest = std::max(newest, entry.path().string());
    }
    return newest;
  }
  // Returns rows begin to end - 1 of a csv table, after a header line. The label depends on the
  // user, on the age, and on whether user and item match.
  static std::string Table(int begin, int end) {
    std::string text = "user,item,age,click\n";
    for (int i = begin; i < end; ++i) {
      const int user = i * 7919 % 20, item = i * 104729 % 6, age = i * 31 % 60;
      const bool click = (user % 3 == item % 3) != (age < 20 && user > 5);
      text += absl::StrFormat("u%d, i%d, %d, %d\n", user, item, 10 + age, click ? 1 : 0);
    }
    return text;
  }
};

TEST_F(ClickTest, LearnsWithTheSameBitsDenseAndSparse) {
  const JobRun dense = RunJob("dense", {"--mode=local"}, {});
  ASSERT_FALSE(HasFailure());
  EXPECT_GT(dense.result.auc, 0.9);
  EXPECT_THAT(dense.output, testing::HasSubstr("train.csv:2002: column \"age\": \"none\""));
  std::string job = ReadWholeFile(job_);
  job.replace(job.find("model {"), 7, "model { arg { name: \"sparse\" value: \"1\" }");
  Write("job.pbtxt", job);
  const JobRun sparse = RunJob("sparse", {"--mode=local"}, {});
  EXPECT_EQ(sparse.result.params_sha256, dense.result.params_sha256);
  EXPECT_EQ(sparse.result.auc, dense.result.auc);
  const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
  const JobRun pserver = RunJob("pserver", {"--servers=2", "--workers=2"}, {});
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  EXPECT_EQ(pserver.result.auc, collective.result.auc);
  EXPECT_THAT(
      collective.output,
      testing::HasSubstr("2 sparse gradients are sent as dense gradients, because this mode "
                         "sends only dense ones, with the same result"));
  const JobRun decay =
      RunJob("decay", {"--mode=collective", "--nproc=2"}, {"--optimizer.l2_decay=0.1"});
  EXPECT_THAT(decay.output, testing::HasSubstr("l2_decay concern all rows of a table"));
  EXPECT_THAT(pserver.output, testing::HasSubstr("2 tables on the servers"));
  EXPECT_NEAR(pserver.result.auc, dense.result.auc, 0.01);
}

// Tests jobs with tables on 1, 2 and 3 servers, with 1 and 2 trainers.
TEST_F(ClickTest, TablesOnServersHaveTheBitsOfOtherModes) {
  for (const auto& [zoo, optimizer] : std::map<std::string, std::string>{
           {"deepfm", "type: \"adagrad\""}, {"wide_deep", "type: \"momentum\" momentum: 0.9"}}) {
    SCOPED_TRACE(zoo);
    Write("job.pbtxt",
          SparseJob({{"\"deepfm\"", "\"" + zoo + "\""}, {"type: \"adam\"", optimizer}}));
    const JobRun local = RunJob("local", {"--mode=local"}, kOneEpoch);
    const JobRun both = RunJob("both", {"--mode=collective", "--nproc=2"}, kOneEpoch);
    ASSERT_FALSE(HasFailure());
    for (const std::string servers : {"--servers=1", "--servers=2", "--servers=3"}) {
      SCOPED_TRACE(servers);
      const JobRun one = RunJob("one", {servers, "--workers=1"}, kOneEpoch);
      const JobRun two = RunJob("two", {servers, "--workers=2"}, kOneEpoch);
      EXPECT_EQ(one.result.params_sha256, local.result.params_sha256);
      EXPECT_EQ(one.result.auc, local.result.auc);
      EXPECT_EQ(two.result.params_sha256, both.result.params_sha256);
      EXPECT_EQ(two.result.auc, both.result.auc);
      EXPECT_THAT(two.output, testing::HasSubstr("2 tables on the servers"));
    }
  }
}

TEST_F(ClickTest, WhatIsNoTableIsSentWholeWithTheSameBits) {
  Write("job.pbtxt", SparseJob({{"type: \"adam\"", "type: \"ftrl\""}}));
  const JobRun local = RunJob("local", {"--mode=local"}, kOneEpoch);
  const JobRun pserver = RunJob("pserver", {"--servers=2", "--workers=1"}, kOneEpoch);
  EXPECT_EQ(pserver.result.params_sha256, local.result.params_sha256);
  EXPECT_THAT(pserver.output, testing::HasSubstr("is not a table on the servers: optimizer ftrl"));
}

// A trainer's checkpoint contains the tables. Thus a job that began on two servers can resume on
// three.
TEST_F(ClickTest, ATableGoesOnOnAnotherNumberOfServers) {
  Write("job.pbtxt", SparseJob({}));
  const JobRun whole = RunJob("whole", {"--servers=2", "--workers=2"}, {"--epochs=2"});
  const std::string checkpoint = "--checkpoint.dir=" + dir_ + "/checkpoint";
  RunJob("first", {"--servers=2", "--workers=2"}, {"--epochs=1", checkpoint});
  const JobRun second =
      RunJob("second", {"--servers=3", "--workers=2"}, {"--epochs=2", checkpoint});
  EXPECT_THAT(second.output, testing::HasSubstr("resumed at step"));
  EXPECT_EQ(second.result.params_sha256, whole.result.params_sha256);
}

// In hybrid mode, a step pushes tables to the servers and reduces all dense parameters among the
// ranks. With one trainer the bits are those of local mode, with two trainers those of collective
// mode.
TEST_F(ClickTest, HybridHasTheBitsOfBothModes) {
  Write("job.pbtxt", SparseJob({}));
  const JobRun local = RunJob("local", {"--mode=local"}, kOneEpoch);
  const JobRun both = RunJob("both", {"--mode=collective", "--nproc=2"}, kOneEpoch);
  ASSERT_FALSE(HasFailure());
  const auto hybrid = [&](const std::string& name, const char* workers,
                          std::vector<std::string> args) {
    args.insert(args.end(), kOneEpoch.begin(), kOneEpoch.end());
    return RunJob(name, {"--mode=hybrid", "--servers=2", workers}, args);
  };
  const JobRun two = hybrid("two", "--workers=2", {});
  EXPECT_EQ(hybrid("one", "--workers=1", {}).result.params_sha256, local.result.params_sha256);
  EXPECT_EQ(two.result.params_sha256, both.result.params_sha256);
  EXPECT_EQ(two.result.auc, both.result.auc);
  EXPECT_THAT(two.output, testing::HasSubstr("2 tables on the servers"));
  // With reduce_strategy=Reduce, only one rank has the slots of a dense parameter.
  EXPECT_EQ(hybrid("reduce", "--workers=2", {"--reduce_strategy=Reduce"}).result.params_sha256,
            both.result.params_sha256);
}

TEST_F(ClickTest, HybridGoesOnFromOtherModesAndTheyFromIt) {
  Write("job.pbtxt", SparseJob({}));
  const std::vector<std::string> hybrid = {"--mode=hybrid", "--servers=2", "--workers=2"},
                                 pserver = {"--servers=1", "--workers=2"};
  const auto run = [&](const std::string& name, const std::vector<std::string>& launch,
                       int epochs) {
    return RunJob(name, launch,
                  {"--epochs=" + std::to_string(epochs), "--checkpoint.dir=" + dir_ + "/ck"})
        .result.params_sha256;
  };
  const std::string want = RunJob("whole", pserver, {"--epochs=4"}).result.params_sha256;
  run("first", hybrid, 1);
  run("second", pserver, 2);
  run("third", {"--mode=collective", "--nproc=2"}, 3);
  EXPECT_EQ(run("fourth", hybrid, 4), want);
}

TEST_F(ClickTest, AKilledProcessOfAHybridJobIsNamedAndNobodyIsLeft) {
  Write("job.pbtxt", SparseJob({}));
  for (const std::string victim : {"tandem-trainer", "tandem-pserver"}) {
    const auto job =
        StartJob("killed", {"--mode=hybrid", "--servers=2", "--workers=2", "--grace_s=2"},
                 {"--epochs=100000", "--log_every_steps=1"});
    ASSERT_TRUE(job->WaitForText("step=3 ")) << job->Output();
    std::vector<pid_t> all = ChildrenOf(job->pid(), "tandem-trainer");
    const std::vector<pid_t> servers = ChildrenOf(job->pid(), "tandem-pserver");
    kill(victim == "tandem-trainer" ? all.back() : servers.back(), SIGKILL);
    EXPECT_NE(job->Wait(60), 0);
    EXPECT_THAT(job->Output(), testing::HasSubstr("killed by SIGKILL"));
    all.insert(all.end(), servers.begin(), servers.end());
    for (const pid_t pid : all) {
      EXPECT_TRUE(WaitUntil([pid] { return kill(pid, 0) != 0; })) << victim << ": " << pid;
    }
  }
}

// Kills pservers and trainers, sometimes two of three trainers. The job must lose or repeat neither
// a push of table rows nor an update of dense parameters.
TEST_F(ClickTest, HybridProcessesThatAreKilledChangeNoBit) {
  const int rounds = FromEnvironment("TANDEM_RECOVERY_ROUNDS", 6);
  const auto seed = static_cast<uint32_t>(FromEnvironment("TANDEM_RECOVERY_SEED", 1));
  for (const bool distributed : {false, true}) {
    SCOPED_TRACE(distributed ? "tables on the servers alone" : "copies of tables");
    const std::string model = "model { arg { name: \"distributed\" value: \"1\" }";
    Write("job.pbtxt", SparseJob({{"model {", distributed ? model : "model {"}}));
    const std::vector<std::string> launch = {"--mode=hybrid", "--servers=2", "--workers=3"};
    const std::vector<std::string> args = {"--epochs=" + std::to_string(20 + 4 * rounds),
                                           "--global_batch_size=63", "--log_every_steps=1",
                                           "--eval_every_epochs=0"};
    const JobRun quiet = RunJob("quiet", launch, args);
    ASSERT_EQ(quiet.exit_code, 0) << quiet.output;
    std::vector<std::string> restarting = launch;
    restarting.push_back("--max_restarts=1000000");
    restarting.push_back("--pserver_data_dir=" + Path(distributed ? "data1" : "data0"));
    const auto job = StartJob("killed", restarting, args);
    std::mt19937 random(seed);
    for (int round = 0; round < rounds; ++round) {
      // A job survives only if at least one trainer has the dense parameters. Therefore the test
      // waits before the next kill until the restarted trainers have received the dense parameters.
      const int step = StepOf(*job) + 20;
      ASSERT_TRUE(WaitUntil([&] { return StepOf(*job) >= step || job->Ended(); }));
      ASSERT_FALSE(job->Ended()) << job->Output();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
      const int first = static_cast<int>(random() % 3), victims = random() % 3 == 0 ? 2 : 1;
      for (int v = 0; v < victims; ++v) {
        if (v > 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
        if (const pid_t pid = TrainerOf(*job, (first + v) % 3); pid != 0) kill(pid, SIGKILL);
      }
      const std::vector<pid_t> servers = ChildrenOf(job->pid(), "tandem-pserver");
      if (random() % 3 == 0 && !servers.empty()) kill(servers[random() % servers.size()], SIGKILL);
    }
    EXPECT_EQ(job->Wait(), 0) << job->Output();
    EXPECT_THAT(job->Output(), testing::HasSubstr("all 3 ranks have joined again"));
    EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256);
    EXPECT_EQ(ResultOf("killed").auc, quiet.result.auc);
    EXPECT_EQ(ResultOf("killed").loss, quiet.result.loss);
  }
}

// If all trainers die, the dense parameters are lost, but the servers still have the tables. The
// job must reject the restarted trainers.
TEST_F(ClickTest, HybridWithoutSurvivorsIsRefused) {
  Write("job.pbtxt", SparseJob({}));
  const auto job =
      StartJob("alone", {"--mode=hybrid", "--servers=1", "--workers=2", "--max_restarts=5"},
               {"--epochs=1000", "--log_every_steps=1"});
  ASSERT_TRUE(job->WaitForText("step=40 ")) << job->Output();
  for (const pid_t pid : ChildrenOf(job->pid(), "tandem-trainer")) kill(pid, SIGKILL);
  EXPECT_NE(job->Wait(), 0);
  EXPECT_THAT(job->Output(), testing::HasSubstr("pservers and trainers are at different steps"));
}

TEST_F(ClickTest, HybridRefusesWhatItCannotDo) {
  const auto expect = [&](const std::vector<std::string>& args, const std::string& words) {
    const auto job = StartJob("refused", {"--mode=hybrid", "--servers=1", "--workers=1"}, args);
    EXPECT_NE(job->Wait(), 0);
    EXPECT_THAT(job->Output(), testing::HasSubstr(words));
  };
  expect({}, "[TD1113]");  // rejected, because the job has no sparse gradient
  Write("job.pbtxt", SparseJob({}));
  expect({"--a_sync=true", "--a_sync_configs.k_steps=4"}, "not implemented in hybrid mode");
  const auto returning =
      StartJob("async", {"--mode=hybrid", "--servers=1", "--workers=1", "--max_restarts=1"},
               {"--a_sync=true"});
  EXPECT_NE(returning->Wait(), 0);
  EXPECT_THAT(returning->Output(), testing::HasSubstr("would update table rows twice"));
  // Pservers update these tables as a whole, so a repeated step would get its own update.
  for (const char* optimizer : {"lamb", "adamw", "ftrl", "lars_momentum"}) {
    const auto whole =
        StartJob(optimizer, {"--mode=hybrid", "--servers=1", "--workers=2", "--max_restarts=1"},
                 {std::string("--optimizer.type=") + optimizer});
    EXPECT_EQ(whole->Wait(), 2) << optimizer;
    EXPECT_THAT(whole->Output(), testing::HasSubstr("an optimizer that updates table"));
  }
}

// The trainers have no copy of the tables, which have 2^40 rows. Two trainers give the bits of
// collective mode, one trainer gives the bits of local mode. For comparison, local and collective
// mode train small tables that have all used rows.
TEST_F(ClickTest, DistributedTablesHaveTheBitsOfOtherModes) {
  const std::string distributed = "model { arg { name: \"distributed\" value: \"1\" }";
  const std::string adagrad = "type: \"adagrad\"";
  Write("job.pbtxt", SparseJob({{"model {", distributed}, {"type: \"adam\"", adagrad}}));
  const JobRun local = RunJob("local", {"--mode=local"}, kOneEpoch);
  const JobRun both = RunJob("both", {"--mode=collective", "--nproc=2"}, kOneEpoch);
  ASSERT_FALSE(HasFailure());
  Write("job.pbtxt", SparseJob({{"model {", distributed},
                                {"type: \"adam\"", adagrad},
                                {"\"45\"", "\"1099511627776\""}}));
  for (const std::string servers : {"--servers=1", "--servers=3"}) {
    SCOPED_TRACE(servers);
    const JobRun one = RunJob("one", {servers, "--workers=1"}, kOneEpoch);
    const JobRun two = RunJob("two", {servers, "--workers=2"}, kOneEpoch);
    EXPECT_EQ(one.result.auc, local.result.auc);
    EXPECT_EQ(one.result.loss, local.result.loss);
    EXPECT_EQ(two.result.auc, both.result.auc);
    EXPECT_EQ(two.result.loss, both.result.loss);
    EXPECT_THAT(two.output, testing::HasSubstr("1 table on the servers, 1 of them only there"));
    // Rows of a step are prefetched after the push of the previous step, so the first step has no
    // prefetched rows.
    EXPECT_LT(one.result.counts.at("ps.rows_ahead"), one.result.steps);
    const JobRun hybrid = RunJob("hybrid", {"--mode=hybrid", servers, "--workers=2"}, kOneEpoch);
    EXPECT_EQ(hybrid.result.params_sha256, two.result.params_sha256);
    EXPECT_EQ(hybrid.result.auc, both.result.auc);
  }
  const auto whole = StartJob("whole", {"--mode=local"}, kOneEpoch);
  EXPECT_NE(whole->Wait(), 0);
  EXPECT_THAT(whole->Output(), testing::HasSubstr("largest variable is \"embedding_0.w\""));
}

// The job resumes on another number of servers, also with table rules. The counts of rows are the
// same as in an undisturbed job. The contents of the file with the rows do not depend on the number
// of servers.
TEST_F(ClickTest, DistributedTablesGoOnOnAnotherNumberOfServers) {
  const std::string arguments =
      "model { arg { name: \"distributed\" value: \"1\" } arg { name: \"table_rules\" value: "
      "\"admit_count=3 shrink_every=20 decay=0.7 shrink_score=1.5 ttl=30\" }";
  Write("job.pbtxt", SparseJob({{"model {", arguments}}));
  const auto run = [&](const std::string& name, const std::string& servers,
                       const std::string& epochs) {
    const JobRun job = RunJob(name, {servers, "--workers=2"},
                              {"--epochs=" + epochs, "--checkpoint.dir=" + dir_ + "/" + name});
    return job.result;
  };
  const JobResult whole = run("whole", "--servers=2", "2");
  run("parts", "--servers=2", "1");
  const JobResult second = run("parts", "--servers=3", "2");
  EXPECT_EQ(second.params_sha256, whole.params_sha256);
  EXPECT_EQ(second.auc, whole.auc);
  EXPECT_EQ(second.loss, whole.loss);
  const std::string rows = ReadWholeFile(Newest("whole") + "/tables.rows");
  EXPECT_GT(rows.size(), 1000u);
  EXPECT_EQ(ReadWholeFile(Newest("parts") + "/tables.rows"), rows);
  EXPECT_THAT(ReadWholeFile(Newest("whole") + "/manifest.pbtxt"),
              testing::HasSubstr("name: \"tables.rows\""));

  // A checkpoint with rows on pservers cannot be loaded by a job whose trainers have whole tables.
  // The reverse is also impossible.
  const auto refused = [&](const std::string& name, const std::vector<std::string>& launch) {
    const auto child =
        StartJob("refused", launch, {"--epochs=3", "--checkpoint.dir=" + dir_ + "/" + name});
    EXPECT_NE(child->Wait(), 0);
    return child->Output();
  };
  Write("job.pbtxt", SparseJob({}));
  EXPECT_THAT(refused("parts", {"--mode=local"}),
              testing::HasSubstr(
                  "tables that only pservers store, which this mode does not support [TD4021]"));
  RunJob("plain", {"--mode=local"}, {"--epochs=1", "--checkpoint.dir=" + dir_ + "/plain"});
  Write("job.pbtxt", SparseJob({{"model {", arguments}}));
  EXPECT_THAT(refused("plain", {"--servers=1", "--workers=1"}),
              testing::HasSubstr("the checkpoint has no rows of"));
  EXPECT_THAT(refused("none", {"--mode=local"}), testing::HasSubstr("has table_rules"));
  const std::string timed =
      absl::StrReplaceAll(arguments, {{"shrink_every=", "shrink_every_s="}, {"ttl=", "ttl_s="}});
  Write("job.pbtxt", SparseJob({{"model {", timed}}));
  EXPECT_THAT(refused("timed", {"--servers=1", "--workers=1"}),
              testing::HasSubstr("but only the records of a stream have event times [TD1107]"));
}

TEST_F(ClickTest, TablesLearnInEveryRegime) {
  const std::string job = SparseJob({{"type: \"adam\"", "type: \"adagrad\""}, {"0.01", "0.1"}});
  Write("job.pbtxt", job);
  const JobRun sync = RunJob("sync", {"--servers=2", "--workers=2"}, {});
  EXPECT_GT(sync.result.auc, 0.85);
  for (const std::string regime : {"half_async: true", "max_merge_var_num: 2"}) {
    Write("job.pbtxt",
          absl::StrFormat("%sstrategy { a_sync: true a_sync_configs { %s } }\n", job, regime));
    const JobRun run = RunJob("regime", {"--servers=2", "--workers=2"}, {});
    EXPECT_THAT(run.output, testing::HasSubstr("2 tables on the servers"));
    EXPECT_NEAR(run.result.auc, sync.result.auc, 0.05) << regime;
    const JobRun hybrid = RunJob("hybrid", {"--mode=hybrid", "--servers=2", "--workers=2"}, {});
    EXPECT_NEAR(hybrid.result.auc, sync.result.auc, 0.05) << regime << " in hybrid mode";
    Write("job.pbtxt", SparseJob({{"model {", "model { arg { name: \"distributed\" value: \"1\" }"},
                                  {"type: \"adam\"", "type: \"adagrad\""},
                                  {"0.01", "0.1"}}) +
                           "strategy { a_sync: true a_sync_configs { " + regime + " } }\n");
    const JobRun alone = RunJob("alone", {"--servers=2", "--workers=2"}, {});
    EXPECT_THAT(alone.output, testing::HasSubstr("1 table on the servers, 1 of them only there"));
    EXPECT_NEAR(alone.result.auc, sync.result.auc, 0.05) << regime;
  }
}

TEST_F(ClickTest, ATableThatIsTooSmallIsNamedAtTheStart) {
  std::string job = ReadWholeFile(job_);
  job.replace(job.find("\"45\""), 4, "\"44\"");
  Write("job.pbtxt", job);
  const auto child = StartJob("small", {"--mode=local"}, {});
  EXPECT_NE(child->Wait(), 0);
  EXPECT_THAT(child->Output(), testing::HasSubstr("set model argument rows=45"));
}

constexpr char kWordJob[] = R"(
name: "words"
model {
  zoo: "word2vec"
  arg { name: "rows" value: "20" }
  arg { name: "dim" value: "8" }
}
data {
  format: "skipgram"
  dir: "."
  skipgram { file: "text" vocabulary: 20 window: 2 test_share: 0.2 }
}
optimizer { type: "adagrad" learning_rate: 0.2 }
global_batch_size: 128
epochs: 2
)";

// The text has two subjects with ten words each, and each sentence is about one subject. Words of
// the same subject must get similar word vectors.
TEST_F(ClickTest, WordVectorsLearnWhatStandsTogether) {
  std::string text;
  for (int sentence = 0; sentence < 300; ++sentence) {
    for (int i = 0; i < 10; ++i) {
      text += sentence % 2 == 0 ? "x" : "y";
      text += static_cast<char>('a' + (sentence * 7 + i * i * 3 + sentence * i) % 10);
      text += i == 9 ? ".\n" : " ";
    }
  }
  Write("text", text);
  Write("job.pbtxt", kWordJob);
  const JobRun local = RunJob("local", {"--mode=local"}, {});
  EXPECT_GT(local.result.auc, 0.7);
  const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
  const JobRun pserver = RunJob("pserver", {"--servers=2", "--workers=2"}, {});
  EXPECT_THAT(pserver.output, testing::HasSubstr("2 tables on the servers"));
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  EXPECT_NEAR(pserver.result.auc, local.result.auc, 0.01);
}

}  // namespace
}  // namespace tandem
