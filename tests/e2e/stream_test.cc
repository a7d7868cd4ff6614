// Tests jobs that train on files which arrive in a directory, while trainers and pservers are
// killed. Each record has its own row of a table, from which its gradient subtracts 1, so the table
// says how often each record was counted.
//   TANDEM_STREAM_KILLS=N kills (20) TANDEM_STREAM_SEED=N of their times (1)
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "pserver/client/reader.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;
using Args = std::vector<std::string>;

constexpr int kRecordsOfStep = 16;  // records of a global batch

// The mean over the 16 records of a step on both trainers, and the learning rate 16, subtract 1 for
// each record. Each push subtracts 8 from the variable "steps", which is therefore minus the number
// of records.
constexpr char kProgram[] = R"(
name: "count"
var { name: "ids" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "values" kind: DATA dims: -1 dims: 1 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "rows" kind: PARAM dims: 16777216 dims: 1 }
var { name: "steps" kind: PARAM dims: 1 dims: 1 }
op {
  type: "lookup_table"
  input { slot: "Ids" var: "ids" }
  input { slot: "W" var: "rows" }
  output { slot: "Out" var: "found" }
  attr { name: "is_sparse" b: true }
  attr { name: "is_distributed" b: true }
}
op {
  type: "fc"
  input { slot: "Input" var: "values" }
  input { slot: "W" var: "steps" }
  output { slot: "Out" var: "count" }
}
op {
  type: "elementwise_add"
  input { slot: "X" var: "found" }
  input { slot: "Y" var: "count" }
  output { slot: "Out" var: "sum" }
}
op { type: "mean" input { slot: "X" var: "sum" } output { slot: "Out" var: "loss" } }
loss: "loss"
)";

constexpr char kJob[] = R"(
name: "stream"
model { program: "count.pbtxt" }
data {
  format: "libsvm"
  dir: "."
  max_bad_records: 1
  libsvm { ids: 16777216 features_max: 1 }
  stream { folder: "records" epoch_steps: 50 wait_log_s: 1 }
}
optimizer { type: "sgd" learning_rate: 16 }
batch_size: 8
log_every_steps: 1
)";

class StreamTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    Write("count.pbtxt", kProgram);
    job_ = Write("stream.pbtxt", kJob);
    std::filesystem::create_directory(Path("records"));
  }
  void TearDown() override {
    process_.reset();
    JobTest::TearDown();
  }
  Args Launch(bool restarts) const {
    Args launch = {"--servers=2", "--workers=2", "--pserver_data_dir=" + Path("state"),
                   "--durability=logged"};
    if (restarts) launch.push_back("--max_restarts=100000");
    return launch;
  }
  void Start(const std::string& name, const Args& launch, const Args& args) {
    name_ = name;
    process_ = StartJob(name, launch, args);
  }
  // Adds a file with the next `count` records. The id of a record is its number.
  void AddFile(int64_t count, const std::string& first_line = "") {
    std::string text = first_line;
    for (int64_t i = 0; i < count; ++i) text += absl::StrFormat("0 %d:1\n", records_++);
    const std::string name = absl::StrFormat("records/%08d", files_++);
    std::filesystem::rename(Write(name + ".tmp", text), Path(name));
  }
  // Connects to the servers of the running job. null: a server does not reply.
  std::unique_ptr<ps::Reader> Reader() const;
  // Returns the number of records whose gradients the servers have; -1: a server does not reply.
  int64_t Counted() const {
    const auto reader = Reader();
    const auto dense = reader ? reader->ReadDense() : Unavailable("no reader");
    return dense.ok() ? std::llround(-dense->variables.at("steps")[0]) : -1;
  }
  void AwaitCounted(int64_t records) const {
    EXPECT_TRUE(WaitUntil([&] { return Counted() >= records || process_->Ended(); }, 120))
        << Counted() << " of " << records << "\n"
        << process_->Output();
  }
  struct Ledger {
    int64_t lost = 0, doubled = 0;
    int64_t too_early = 0;  // records after the last whole batch that were counted
  };
  // Waits until the servers have all whole batches, and counts their records.
  Ledger Count() const;
  void ExpectEachOnce() const {
    const Ledger ledger = Count();
    EXPECT_EQ(ledger.lost, 0);
    EXPECT_EQ(ledger.doubled, 0);
    EXPECT_EQ(ledger.too_early, 0);
  }
  // Kills a random trainer or pserver `kills` times while files arrive. `only_trainers`: kills no
  // pserver.
  void KillProcesses(int kills, uint32_t seed, bool only_trainers = false);

  std::string name_, pserver_ = "tandem-pserver";
  std::unique_ptr<ChildProcess> process_;
  int64_t records_ = 0;
  int files_ = 0;
};

std::unique_ptr<ps::Reader> StreamTest::Reader() const {
  const std::string log = Path(name_ + ".log/");
  const auto record =
      nlohmann::json::parse(ReadWholeFile(log + "job.json"), nullptr, /*exceptions=*/false);
  if (!record.is_object()) return nullptr;
  ps::ReaderOptions options;
  options.job = record.value("job", "");
  std::getline(std::ifstream(log + "job.secret"), options.security.secret);
  const std::vector<std::string> servers = absl::StrSplit(record.value("pservers", ""), ',');
  auto reader = ps::Reader::Connect(servers, options);
  return reader.ok() ? *std::move(reader) : nullptr;
}

StreamTest::Ledger StreamTest::Count() const {
  const int64_t whole = records_ / kRecordsOfStep * kRecordsOfStep;
  AwaitCounted(whole);
  std::vector<int64_t> ids(static_cast<size_t>(records_));
  std::iota(ids.begin(), ids.end(), 0);
  const auto reader = Reader();
  const auto rows = reader ? reader->ReadRows("rows", ids) : Unavailable("no reader");
  EXPECT_TRUE(rows.ok()) << rows.status();
  Ledger ledger;
  for (int64_t i = 0; rows.ok() && i < records_; ++i) {
    const auto times = std::llround(-rows->values[static_cast<size_t>(i)]);
    ledger.lost += i < whole && times < 1;
    ledger.doubled += i < whole && times > 1;
    ledger.too_early += i >= whole && times != 0;
  }
  std::printf("stream ledger: %lld records in %d files, %lld lost, %lld doubled\n",
              static_cast<long long>(whole), files_, static_cast<long long>(ledger.lost),
              static_cast<long long>(ledger.doubled));
  return ledger;
}

void StreamTest::KillProcesses(int kills, uint32_t seed, bool only_trainers) {
  std::mt19937 random(seed);
  int trainers = 0, servers = 0;
  for (int k = 0; k < kills && !HasFailure(); ++k) {
    for (uint32_t file = 0; file < 1 + random() % 4; ++file) AddFile(50 + random() % 400);
    // Usually waits until the trainers use the new files. In a quarter of the cases kills at once,
    // while a process may still start.
    if (random() % 4 != 0) AwaitCounted(records_ - 500);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
    const bool trainer = random() % 2 == 0 || only_trainers;
    const std::vector<pid_t> pids =
        ChildrenOf(process_->pid(), trainer ? "tandem-trainer" : pserver_);
    if (pids.empty()) continue;  // the killed processes have not been restarted yet
    (trainer ? trainers : servers) += 1;
    kill(pids[random() % pids.size()], SIGKILL);
  }
  std::printf("stream ledger: seed %u, %d kills of trainers, %d of pservers\n", seed, trainers,
              servers);
  EXPECT_GT(trainers, 0);
  EXPECT_EQ(servers == 0, only_trainers);
}

TEST_F(StreamTest, EachRecordIsCountedOnceWhoeverDies) {
  const int kills = FromEnvironment("TANDEM_STREAM_KILLS", 20);
  const int seed = FromEnvironment("TANDEM_STREAM_SEED", 1);
  Start("async", Launch(/*restarts=*/true), {"--mode=pserver", "--strategy.a_sync=true"});
  KillProcesses(kills, static_cast<uint32_t>(seed));
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
