// Jobs that train on records which arrive, while trainers and pservers are killed. Each record has
// its own row of a table, from which its gradient subtracts 1, so the table says how often each
// record was counted.
#pragma once

#include <signal.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "pserver/client/reader.h"
#include "tests/support/process_test_util.h"

namespace tandem {

inline constexpr int kRecordsOfStep = 16;  // records of a global batch

// The mean over the 16 records of a step on both trainers, and the learning rate 16, subtract 1 for
// each record. Each push subtracts 8 from the variable "steps", which is therefore minus the number
// of records.
inline constexpr char kProgram[] = R"(
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

inline constexpr char kStreamJob[] = R"(
name: "stream"
model { program: "count.pbtxt" }
data {
  format: "libsvm"
  dir: "."
  max_bad_records: 1
  libsvm { ids: 16777216 features_max: 1 }
  stream { $SOURCE epoch_steps: 50 wait_log_s: 1 }
}
optimizer { type: "sgd" learning_rate: 16 }
batch_size: 8
log_every_steps: 1
)";

// A job with a stream whose records count themselves. A test of a source implements AddRecords.
class StreamFixture : public JobTest {
 protected:
  using Args = std::vector<std::string>;

  // Writes the job. `source`: fields of data.stream.
  void WriteJob(const std::string& source) {
    Write("count.pbtxt", kProgram);
    job_ = Write("stream.pbtxt", absl::StrReplaceAll(kStreamJob, {{"$SOURCE", source}}));
  }
  // Adds the next `count` records, with the texts of NextRecord.
  virtual void AddRecords(int64_t count) = 0;
  std::string NextRecord() { return absl::StrFormat("0 %d:1", records_++); }
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
  // Kills a random trainer or pserver `kills` times while records arrive. `only_trainers`: kills no
  // pserver.
  void KillProcesses(int kills, uint32_t seed, bool only_trainers = false);

  std::string name_, pserver_ = "tandem-pserver";
  std::unique_ptr<ChildProcess> process_;
  int64_t records_ = 0;
  int64_t load_ = 1;  // factor of the records that KillProcesses adds
};

inline std::unique_ptr<ps::Reader> StreamFixture::Reader() const {
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

inline StreamFixture::Ledger StreamFixture::Count() const {
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
  std::printf("stream ledger: %lld records, %lld lost, %lld doubled\n",
              static_cast<long long>(whole), static_cast<long long>(ledger.lost),
              static_cast<long long>(ledger.doubled));
  return ledger;
}

inline void StreamFixture::KillProcesses(int kills, uint32_t seed, bool only_trainers) {
  std::mt19937 random(seed);
  int trainers = 0, servers = 0;
  for (int k = 0; k < kills && !HasFailure(); ++k) {
    for (uint32_t part = 0; part < 1 + random() % 4; ++part)
      AddRecords(load_ * (50 + random() % 400));
    // Usually waits until the trainers use the new records. In a quarter of the cases kills at
    // once, while a process may still start.
    if (random() % 4 != 0) AwaitCounted(records_ - 500 * load_);
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

}  // namespace tandem
