// Tests jobs that train on files which arrive in a directory, while trainers and pservers
// are killed (stream_fixture.h). Each record has its own row of a table, from which its gradient
// subtracts 1, so the table says how often each record was counted.
//   TANDEM_STREAM_KILLS=N kills (20) TANDEM_STREAM_SEED=N of their times (1)
#include <atomic>
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/e2e/stream_fixture.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;

class StreamTest : public StreamFixture {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    std::filesystem::create_directory(Path("records"));
    WriteJob("folder: \"records\"");
  }
  // Adds a file with the next `count` records.
  void AddFile(int64_t count, const std::string& first_line = "") {
    std::string text = first_line;
    for (int64_t i = 0; i < count; ++i) text += NextRecord() + "\n";
    const std::string name = absl::StrFormat("records/%08d", files_++);
    std::filesystem::rename(Write(name + ".tmp", text), Path(name));
  }
  void AddRecords(int64_t count) override { AddFile(count); }

  int files_ = 0;
};

TEST_F(StreamTest, EachRecordIsCountedOnceWhoeverDies) {
  const int kills = FromEnvironment("TANDEM_STREAM_KILLS", 20);
  const int seed = FromEnvironment("TANDEM_STREAM_SEED", 1);
  Start("async", Launch(/*restarts=*/true), {"--mode=pserver", "--strategy.a_sync=true"});
  KillProcesses(kills, static_cast<uint32_t>(seed));
  ExpectEachOnce();
}

// Rows and slices move to pserver 2, which the test starts, and back again. Pserver 2 and the
// commands are killed too.
TEST_F(StreamTest, EachRecordIsCountedOnceWhileRowsMove) {
  const int kills = FromEnvironment("TANDEM_STREAM_KILLS", 20);
  const int seed = FromEnvironment("TANDEM_STREAM_SEED", 1);
  Start("moves", Launch(/*restarts=*/true), {"--mode=pserver", "--strategy.a_sync=true"});
  AddFile(1000);
  AwaitCounted(500);
  const std::string log = Path("moves.log"), address = "127.0.0.1:" + std::to_string(FreePort());
  std::unique_ptr<ChildProcess> added;
  const auto start = [&] {
    const Args args = {"--listen=" + address, "--index=2", "--job=stream",
                       "--data_dir=" + Path("state/pserver-2"), "--durability=logged"};
    added.reset();
    added = std::make_unique<ChildProcess>(
        "tandem-pserver", args,
        std::map<std::string, std::string>{{"TANDEM_SECRET_FILE", log + "/job.secret"}},
        Path("pserver-2"));
    EXPECT_TRUE(added->WaitForText("listening on", 60)) << added->Output();
  };
  start();
  std::atomic<bool> stop = false;
  int moved = 0, drained = 0, killed = 0, restarted = 0;
  std::thread mover([&] {
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (int n = 0; n < 10'000 && (!stop || moved == 0 || drained == 0); ++n) {
      const bool drains = n % 2 == 1;
      const Args args =
          drains ? Args{"drain", log, "--pserver=2"} : Args{"rebalance", log, "--add=" + address};
      ChildProcess command("tandem", args, {}, Path("tandem-" + std::to_string(n)));
      const uint32_t fault = random() % 4;
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
      if (fault == 0) command.Signal(SIGKILL);
      if (fault == 1) {
        added->Signal(SIGKILL);
        added->Wait(20);
        start();
      }
      const bool ended = command.Wait(180) == 0;
      killed += fault == 0;
      restarted += fault == 1;
      moved += ended && !drains;
      drained += ended && drains;
    }
  });
  KillProcesses(kills, static_cast<uint32_t>(seed));
  stop = true;
  mover.join();
  std::printf(
      "stream ledger: %d moves to pserver 2 and %d back, %d kills of commands, %d of pserver 2\n",
      moved, drained, killed, restarted);
  EXPECT_GT(moved, 0);
  EXPECT_GT(drained, 0);
  ExpectEachOnce();
}

// The ledger must find servers that count a repeated step again.
TEST_F(StreamTest, ServersThatCountAStepTwiceAreCaught) {
  pserver_ = "broken-tandem-pserver";
  Args launch = Launch(/*restarts=*/true);
  launch.push_back(
      "--pserver_bin=" + std::filesystem::absolute(std::getenv("TANDEM_BIN_DIR")).string() + "/" +
      pserver_);
  Start("broken", launch, {"--mode=pserver", "--strategy.a_sync=true"});
  for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    KillProcesses(15, seed, /*only_trainers=*/true);
    if (Count().doubled > 0) return;
  }
  ADD_FAILURE() << "no doubled record was found";
}

TEST_F(StreamTest, HalfAsyncTrainersCountEachRecordOnceToo) {
  Start("half", Launch(/*restarts=*/true),
        {"--mode=pserver", "--strategy.a_sync=true", "--half_async=true"});
  KillProcesses(8, 2);
  ExpectEachOnce();
}

TEST_F(StreamTest, SynchronousTrainersCountEachRecordOnceToo) {
  // The gradients of both trainers are added up.
  Start("sync", Launch(/*restarts=*/true), {"--mode=pserver"});
  KillProcesses(8, 3);
  ExpectEachOnce();
}

// The rules ttl_s and shrink_every_s of a table count the times of the files.
TEST_F(StreamTest, RowsAreRemovedByTheTimesOfTheirRecords) {
  Write("count.pbtxt", absl::StrReplaceAll(kProgram, {{"attr { name: \"is_distributed\" b: true }",
                                                       "attr { name: \"is_distributed\" b: true } "
                                                       "attr { name: \"table_rules\" s: "
                                                       "\"shrink_every_s=10 ttl_s=60\" }"}}));
  constexpr int64_t kFile = 20 * kRecordsOfStep;
  const auto add = [&](int age_s) {
    std::string text;
    for (int64_t i = 0; i < kFile; ++i) text += NextRecord() + "\n";
    const std::string name = absl::StrFormat("records/%08d", files_++);
    const std::string path = Write(name + ".tmp", text);
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(age_s));
    std::filesystem::rename(path, Path(name));
  };
  const auto rows = [&](int64_t file) {
    std::vector<int64_t> ids(kFile);
    std::iota(ids.begin(), ids.end(), file * kFile);
    const auto reader = Reader();
    const auto read = reader ? reader->ReadRows("rows", ids) : Unavailable("no reader");
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? std::accumulate(read->values.begin(), read->values.end(), 0.0f) : NAN;
  };
  for (const char* mode : {"--strategy.a_sync=true", "--strategy.a_sync=false"}) {
    SCOPED_TRACE(mode);
    std::filesystem::remove_all(Path("records"));
    std::filesystem::remove_all(Path("state"));
    std::filesystem::create_directory(Path("records"));
    records_ = files_ = 0;
    Start(absl::StrCat("job", mode), Launch(/*restarts=*/true), {"--mode=pserver", mode});
    add(1000);
    AwaitCounted(kFile);  // otherwise one trainer may push records of the second file before it
    add(970);
    AwaitCounted(2 * kFile);
    EXPECT_EQ(rows(0), -kFile) << "the rows are not old enough";
    // The servers must know the times of the checks after a restart.
    const std::vector<pid_t> pids = ChildrenOf(process_->pid(), pserver_);
    ASSERT_FALSE(pids.empty());
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    add(905);
    AwaitCounted(3 * kFile);
    EXPECT_EQ(rows(0), 0) << "the check at age 970 is 65 s before the newest record";
    EXPECT_EQ(rows(1), -kFile) << "no check precedes the newest record by 60 s";
    EXPECT_EQ(rows(2), -kFile);
    process_.reset();
  }
}

TEST_F(StreamTest, AStoppedJobContinuesAtItsPosition) {
  const Args args = {"--mode=pserver", "--strategy.a_sync=true"};
  Start("first", Launch(/*restarts=*/false), args);
  AddFile(100);
  AddFile(101);
  ExpectEachOnce();
  ASSERT_TRUE(process_->WaitForText("has no new file for")) << process_->Output();
  process_->Signal(SIGTERM);
  process_->Wait();
  EXPECT_THAT(process_->Output(),
              HasSubstr("training stopped on request after step 12; the pservers have the "
                        "position in the stream [TD7007]"));
  std::filesystem::remove(Path("records/00000000"));
  Start("second", Launch(/*restarts=*/false), args);
  ASSERT_TRUE(process_->WaitForText("resumed at step 12\n")) << process_->Output();
  AddFile(60);
  ExpectEachOnce();
  EXPECT_THAT(process_->Output(), Not(HasSubstr("training steps wait for data")));
  process_->Signal(SIGTERM);
  process_->Wait();
  Start("third", Launch(/*restarts=*/false),
        {"--mode=pserver", "--strategy.a_sync=true", "--batch_size=4"});
  EXPECT_EQ(process_->Wait(), 78) << process_->Output();
  EXPECT_THAT(process_->Output(),
              HasSubstr("in global batches of 16 records, but its global batch is now 8"));
}

// In collective mode the checkpoint has the position.
TEST_F(StreamTest, RanksSaveTheirPositionWhileTheyWait) {
  const Args args = {"--checkpoint.dir=" + Path("checkpoints")};
  Start("first", {"--mode=collective", "--nproc=2"}, args);
  AddFile(100);
  ASSERT_TRUE(process_->WaitForText("step=6 ")) << process_->Output();
  ASSERT_TRUE(process_->WaitForText("has no new file for")) << process_->Output();
  process_->Signal(SIGTERM);
  process_->Wait();
  EXPECT_THAT(process_->Output(), HasSubstr("after step 6; the checkpoint is in"));
  Start("second", {"--mode=collective", "--nproc=2"}, args);
  ASSERT_TRUE(process_->WaitForText("resumed at step 6\n")) << process_->Output();
  AddFile(60);
  EXPECT_TRUE(process_->WaitForText("step=10 ")) << process_->Output();
  // The program's loss is the mean of minus the number of earlier records and of the rows.
  EXPECT_THAT(process_->Output(), HasSubstr("step=10 epoch=0 loss=-144.000000"));
}

TEST_F(StreamTest, BadRecordsAreNamedAndCounted) {
  AddFile(15, "0 x:1\n");
  AddFile(16);
  Start("bad", {"--mode=local"}, {"--steps_max=3", "--batch_size=16"});
  EXPECT_TRUE(process_->WaitForText("step=2 ")) << process_->Output();
  AddFile(14, "0 y:1\n0 z:1\n");
  EXPECT_EQ(process_->Wait(), 65) << process_->Output();
  EXPECT_THAT(process_->Output(), HasSubstr("bad record skipped: "));
  EXPECT_THAT(process_->Output(),
              HasSubstr("records/00000000: offset 0: \"x:1\" is not a feature"));
  EXPECT_THAT(process_->Output(), HasSubstr("skipped=1"));
  EXPECT_THAT(process_->Output(),
              HasSubstr("records/00000002: offset 6: \"z:1\" is not a feature"));
  EXPECT_THAT(process_->Output(),
              HasSubstr("this is bad record 2 of the file, but max_bad_records is 1 [TD2003]"));
}

}  // namespace
}  // namespace tandem
