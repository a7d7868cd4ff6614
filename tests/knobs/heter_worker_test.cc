// heter_worker_device_guard and tandemrun --heter_workers: operators whose device guard matches the
// knob run on heter workers. The bits are those of the same job without heter workers.
#include <signal.h>

#include <set>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "kernels/graph/distribute/sections.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

constexpr char kJob[] = R"(
name: "heter"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "3" }
  arg { name: "rows" value: "45" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "16,8" }
  arg { name: "TABLES" value: "1" }
  arg { name: "device" value: "gpu" }
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
}
optimizer { type: "adam" learning_rate: 0.01 }
global_batch_size: 64
epochs: 2
threads: 1
)";
// The trainers scale the vectors that they look up. The heter workers run the rest, which has a
// dropout.
constexpr char kProgram[] = R"(
name: "own"
var { name: "ids" kind: DATA dtype: I64 dims: -1 dims: 3 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "vectors" kind: PARAM dims: 45 dims: 4 init { kind: NORMAL stddev: 0.1 } }
var { name: "scale" kind: PARAM dims: 4 init { value: 1 } }
var { name: "w" kind: PARAM dims: 12 dims: 1 init { kind: XAVIER_UNIFORM } }
var { name: "dropout_position" kind: STATE dtype: I64 dims: 4 }
op {
  type: "lookup_table"
  input { slot: "Ids" var: "ids" } input { slot: "W" var: "vectors" }
  output { slot: "Out" var: "found" }
  attr { name: "is_sparse" b: true }
}
op {
  type: "elementwise_mul"
  input { slot: "X" var: "found" } input { slot: "Y" var: "scale" }
  output { slot: "Out" var: "scaled" }
}
op {
  type: "reshape" input { slot: "X" var: "scaled" } output { slot: "Out" var: "flat" }
  attr { name: "shape" ints { v: 0 v: 12 } } attr { name: "op_device" s: "gpu" }
}
op {
  type: "dropout"
  input { slot: "X" var: "flat" } input { slot: "Position" var: "dropout_position" }
  output { slot: "Out" var: "left" }
  attr { name: "dropout_prob" f: 0.3 } attr { name: "name" s: "d" }
  attr { name: "op_device" s: "gpu" }
}
op {
  type: "fc" input { slot: "Input" var: "left" } input { slot: "W" var: "w" }
  output { slot: "Out" var: "logits" } attr { name: "op_device" s: "gpu" }
}
op {
  type: "sigmoid_cross_entropy"
  input { slot: "Logits" var: "logits" } input { slot: "Label" var: "label" }
  output { slot: "Sigmoid" var: "sigmoid" } output { slot: "Loss" var: "losses" }
  attr { name: "op_device" s: "gpu" }
}
op {
  type: "mean" input { slot: "X" var: "losses" } output { slot: "Out" var: "loss" }
  attr { name: "op_device" s: "gpu" }
}
loss: "loss"
)";
constexpr char kGuard[] = "strategy.a_sync_configs.heter_worker_device_guard";
constexpr int kSteps = 60, kBatch = 32;  // number of steps and batch size of each of two trainers

class HeterWorkerTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    WriteJob("sparse");
    Write("train.csv", Table(0, 2000));
    Write("test.csv", Table(2000, 3000));
  }
  // Writes the job. `tables` is "sparse" (trainers also have copies of the tables) or "distributed"
  // (only pservers have the tables).
  void WriteJob(const std::string& tables, const std::string& zoo = "deepfm") {
    std::string job = kJob;
    job.replace(job.find("TABLES"), 6, tables);
    job_ = Write("job.pbtxt", job.replace(job.find("deepfm"), 6, zoo));
  }
  // The label depends on the user, on the age and on whether user and item match.
  static std::string Table(int begin, int end) {
    std::string text = "user,item,age,click\n";
    for (int i = begin; i < end; ++i) {
      const int user = i * 7919 % 20, item = i * 104729 % 6, age = i * 31 % 60;
      const bool click = (user % 3 == item % 3) != (age < 20 && user > 5);
      text += absl::StrFormat("u%d, i%d, %d, %d\n", user, item, 10 + age, click ? 1 : 0);
    }
    return text;
  }
  static Args Hybrid(int trainers, int heter_workers = 0) {
    Args launch = {"--mode=hybrid", "--servers=2", absl::StrFormat("--workers=%d", trainers)};
    if (heter_workers > 0) launch.push_back(absl::StrFormat("--heter_workers=%d", heter_workers));
    return launch;
  }
  static Args With(Args args, int steps = kSteps) {
    args.push_back("--steps_max=" + std::to_string(steps));
    return args;
  }
  JobRun Whole(const std::string& name, int trainers, const Args& args = {}) const {
    return RunJob(name, Hybrid(trainers), With(args));
  }
  JobRun Split(const std::string& name, int trainers, Args args = {}) const {
    args.push_back(std::string("--") + kGuard + "=gpu");
    return RunJob(name, Hybrid(trainers, trainers), With(std::move(args)));
  }
  std::string Refused(const std::string& name, const Args& args) const {
    const auto job = StartJob(name, Hybrid(1, 1), args);
    EXPECT_NE(job->Wait(), 0) << job->Output();
    return job->Output();
  }
};

TEST_F(HeterWorkerTest, TheBitsOfTheJobWithoutThem) {
  for (const auto& [zoo, tables] :
       {std::pair("deepfm", "sparse"), {"deepfm", "distributed"}, {"wide_deep", "sparse"}}) {
    SCOPED_TRACE(std::string(zoo) + ", " + tables);
    WriteJob(tables, zoo);
    for (const int trainers : {1, 2}) {
      const JobRun whole = Whole("whole", trainers), split = Split("split", trainers);
      EXPECT_EQ(split.result.params_sha256, whole.result.params_sha256);
      EXPECT_EQ(split.result.auc, whole.result.auc) << "evaluation goes through both";
      EXPECT_EQ(split.result.loss, whole.result.loss);
      EXPECT_EQ(split.result.counts.at("heter_workers"), trainers);
      EXPECT_EQ(whole.result.counts.count("heter_workers"), 0u);
    }
  }
}

// A heter worker of several trainers treats the batches of these trainers as parts of one batch,
// like a rank with batch_merge_repeats.
TEST_F(HeterWorkerTest, OneForTwoTrainersHasTheSameBits) {
  const JobRun whole = Whole("whole", 2);
  const JobRun split = RunJob("split", Hybrid(2, 1), With({std::string("--") + kGuard + "=gpu"}));
  EXPECT_EQ(split.result.params_sha256, whole.result.params_sha256);
  EXPECT_EQ(split.result.auc, whole.result.auc);
  EXPECT_EQ(split.result.loss, whole.result.loss);
  EXPECT_EQ(split.result.counts.at("comm.send_v2"), whole.result.counts.at("comm.pull_rows"));
  // The results of these two jobs differ only in rounding: one job adds four gradients one after
  // another, the other job adds two sums of two gradients.
  const JobRun four = Whole("four", 4);
  const JobRun pairs = RunJob("pairs", Hybrid(4, 2), With({std::string("--") + kGuard + "=gpu"}));
  EXPECT_NEAR(pairs.result.loss, four.result.loss, 1e-4 * four.result.loss);
  EXPECT_NEAR(pairs.result.auc, four.result.auc, 1e-4);
}

// Trainers and heter workers both have dense parameters. The dropout mask depends only on the
// sample.
TEST_F(HeterWorkerTest, TrainersHaveDenseParametersToo) {
  Write("own.pbtxt", kProgram);
  std::string job = ReadWholeFile(job_);
  const size_t model = job.find("model {"), data = job.find("data {");
  job_ = Write("own_job.pbtxt",
               job.replace(model, data - model, "model { program: \"own.pbtxt\" }\n"));
  const JobRun whole = Whole("whole", 2), split = Split("split", 2);
  EXPECT_EQ(split.result.params_sha256, whole.result.params_sha256);
  EXPECT_EQ(split.result.loss, whole.result.loss);
  EXPECT_EQ(split.result.counts.at("comm.c_allreduce_sum"), kSteps);
  const Args guard = {std::string("--") + kGuard + "=gpu"};
  const JobRun one = RunJob("one", Hybrid(2, 1), With(guard));
  EXPECT_EQ(one.result.params_sha256, whole.result.params_sha256);
  Args store = {guard[0], "--checkpoint.dir=" + Path("own"), "--steps_max=20"};
  RunJob("begun", Hybrid(2, 1), store);
  store.back() = "--steps_max=" + std::to_string(kSteps);
  EXPECT_EQ(RunJob("ended", Hybrid(2, 2), store).result.params_sha256, whole.result.params_sha256);
}

TEST_F(HeterWorkerTest, OtherKnobsHaveTheirBitsToo) {
  const Args rows[] = {
      {"--fp16_allreduce=true"},
      {"--collective_transport=Tcp", "--pserver_transport=Grpc", "--num_iteration_per_run=4"},
      {"--optimizer.type=ftrl"},  // Pservers have no tables for ftrl: they update whole parameters.
  };
  for (const Args& args : rows) {
    SCOPED_TRACE(args[0]);
    const JobRun whole = Whole("whole", 2, args), split = Split("split", 2, args);
    EXPECT_EQ(split.result.params_sha256, whole.result.params_sha256);
    EXPECT_EQ(split.result.auc, whole.result.auc);
  }
  EXPECT_GT(Split("async", 2, {"--a_sync=true"}).result.auc, 0.8);
}

TEST_F(HeterWorkerTest, EachHasTrainersOfItsOwn) {
  const Overrides knobs = {{"mode", "hybrid"}, {kGuard, "gpu"}};
  for (int rank = 0; rank < 6; ++rank) {
    SCOPED_TRACE(rank);
    std::set<int64_t> peers;
    const graph::Program train = Programs(knobs, 6, rank, 2).train;
    for (const ops::Op& op : train.ops) {
      if (const auto peer = op.attrs.find("peer"); peer != op.attrs.end()) {
        peers.insert(std::get<int64_t>(peer->second));
      }
    }
    const std::set<int64_t> of_first = {0, 1}, of_second = {2, 3};
    EXPECT_EQ(peers, rank < 4 ? std::set<int64_t>{4 + rank / 2} : rank == 4 ? of_first : of_second);
    EXPECT_EQ(Count(train, "fc"), rank < 4 ? 0 : 2 * 3) << "for each trainer's batch";
  }
}

// Trainers have the tables and call the pservers. Heter workers have all other parameters.
TEST_F(HeterWorkerTest, EachKindHasItsOperators) {
  const Overrides knobs = {{"mode", "hybrid"}, {kGuard, "gpu"}};
  const graph::Program whole = Programs({{"mode", "hybrid"}}, 2).train;
  for (const int rank : {0, 1, 2, 3}) {
    SCOPED_TRACE(rank);
    const graph::Program train = Programs(knobs, 4, rank, 2).train;
    const bool trainer = rank < 2;
    for (const char* type : {"lookup_table", "pull_rows", "push_rows"}) {
      EXPECT_EQ(Count(train, type), trainer ? Count(whole, type) : 0) << type;
    }
    for (const char* type : {"fc", "relu_grad", "sigmoid_cross_entropy", "auc", "adam"}) {
      EXPECT_EQ(Count(train, type), trainer ? 0 : Count(whole, type)) << type;
      EXPECT_GT(Count(whole, type), 0) << type;
    }
    EXPECT_EQ(Count(train, "c_allreduce_sum"), trainer ? 0 : Count(whole, "c_allreduce_sum"));
    std::set<std::string> params;
    for (const graph::Var* var : train.VarsOf(graph::VarKind::kParam)) params.insert(var->name);
    EXPECT_EQ(params.contains("embedding_0.w"), trainer);
    EXPECT_EQ(params.contains("fc_0.w"), !trainer);
    // A trainer sends the looked-up weights and vectors to the heter worker, and receives their
    // gradients. The first trainer also receives loss and metric.
    EXPECT_EQ(Count(train, "send_v2"), rank == 2 ? 4 : 2);
    EXPECT_EQ(Count(train, "recv_v2"), rank == 0 ? 4 : 2);
    for (const ops::Op& op : train.ops) {
      const auto peer = op.attrs.find("peer");
      if (peer == op.attrs.end()) continue;
      EXPECT_EQ(std::get<int64_t>(peer->second), (rank + 2) % 4) << op.type;
    }
  }
}

TEST_F(HeterWorkerTest, ValuesGoOverAndGradientsComeBack) {
  const auto& counts = Split("moved", 2).result.counts;  // run counts of the first trainer
  const double values = kBatch * 3 * (1 + 4) * sizeof(float);
  EXPECT_EQ(counts.at("comm.send_v2"), 2 * kSteps);
  EXPECT_EQ(counts.at("comm_out_bytes.send_v2"), kSteps * values);
  EXPECT_EQ(counts.at("comm.recv_v2"), 4 * kSteps);
  EXPECT_EQ(counts.at("comm_out_bytes.recv_v2"), kSteps * (values + 2 * sizeof(float)));
  EXPECT_EQ(counts.count("comm.c_allreduce_sum"), 0u) << "heter workers reduce among themselves";
  EXPECT_EQ(counts.at("ps.pushes"), kSteps);
}

// The value of the knob names the device of the guard. Operators with a guard for another device
// run on the trainers.
TEST_F(HeterWorkerTest, TheGuardNamesTheDevice) {
  EXPECT_THAT(Refused("default", {}),
              HasSubstr("no operator of program \"deepfm\" has device guard \"cpu\""));
  const std::string guard = std::string("--") + kGuard;
  EXPECT_THAT(Refused("neither", {guard + "=tpu"}),
              HasSubstr("heter_worker_device_guard is \"tpu\", expected cpu or gpu [TD1104]"));
  const auto note = Job({{"mode", "hybrid"}, {kGuard, "gpu"}}).notes;
  EXPECT_THAT(note, HasSubstr("heter_worker_device_guard has no effect without heter workers"));
  EXPECT_EQ(Job({{"mode", "hybrid"}, {kGuard, "gpu"}}, 2, 2).notes, "");
}

// Checkpoints are complete. A job with heter workers and a job without heter workers can each
// resume from a checkpoint of the other.
TEST_F(HeterWorkerTest, CheckpointsGoOnWithAndWithoutThem) {
  for (const char* tables : {"sparse", "distributed"}) {
    SCOPED_TRACE(tables);
    WriteJob(tables);
    const std::string undisturbed = Whole("undisturbed", 2).result.params_sha256;
    const auto store = [&](const std::string& name, int steps) {
      return Args{"--checkpoint.dir=" + Path(name + tables), "--checkpoint.every_steps=20",
                  "--steps_max=" + std::to_string(steps)};
    };
    const Args guard = {std::string("--") + kGuard + "=gpu"};
    const auto with = [&](Args args) {
      args.push_back(guard[0]);
      return args;
    };
    RunJob("first", Hybrid(2, 2), with(store("forth", 20)));
    RunJob("again", Hybrid(2, 2), with(store("forth", 40)));
    const JobRun then = RunJob("then", Hybrid(2), store("forth", kSteps));
    EXPECT_THAT(then.output, HasSubstr("resumed at step 40"));
    EXPECT_EQ(then.result.params_sha256, undisturbed);
    RunJob("start", Hybrid(2), store("back", 20));
    EXPECT_EQ(RunJob("end", Hybrid(2, 2), with(store("back", kSteps))).result.params_sha256,
              undisturbed);
  }
}

TEST_F(HeterWorkerTest, ADeadOneIsNamed) {
  for (const int rank : {1, 2}) {  // rank 1 is a trainer, rank 2 a heter worker
    const auto job = StartJob("killed", Hybrid(2, 2),
                              {std::string("--") + kGuard + "=gpu", "--epochs=100000",
                               "--eval_every_epochs=0", "--log_every_steps=20"});
    ASSERT_TRUE(job->WaitForText("step=")) << job->Output();
    kill(TrainerOf(*job, rank), SIGKILL);
    EXPECT_NE(job->Wait(), 0);
    const char* kind = rank == 1 ? "trainer" : "heter worker";
    EXPECT_THAT(job->Output(), HasSubstr(absl::StrFormat("first failure  %s %d", kind, rank)));
  }
}

TEST_F(HeterWorkerTest, ARequestToStopReachesAll) {
  const Args args = {std::string("--") + kGuard + "=gpu", "--epochs=100000",
                     "--eval_every_epochs=0", "--log_every_steps=20",
                     "--checkpoint.dir=" + Path("stopped")};
  const auto job = StartJob("stopped", Hybrid(2, 2), args);
  ASSERT_TRUE(job->WaitForText("step=")) << job->Output();
  job->Signal(SIGTERM);
  EXPECT_EQ(job->Wait(), 128 + SIGTERM);
  EXPECT_THAT(job->Output(), HasSubstr("stopped on request after step"));
}

TEST_F(HeterWorkerTest, WhatIsNotBuiltIsRefused) {
  const auto refused = [this](const std::string& name, const std::string& arg) {
    return Refused(name, {std::string("--") + kGuard + "=gpu", arg});
  };
  for (const auto& [arg, words] :
       {std::pair("--amp=true", "heter workers are not implemented together with amp"),
        {"--gradient_merge=true", "not implemented together with gradient_merge"},
        {"--batch_merge_repeats=2", "not implemented together with batch_merge_repeats"},
        {"--data.remainder=JOIN", "not implemented together with remainder: JOIN"},
        {"--reduce_strategy=Reduce", "not implemented together with reduce_strategy"},
        {"--optimizer.clip_global_norm=1",
         "clip_global_norm is not implemented with pipeline or heter workers"}}) {
    EXPECT_THAT(refused("refused", arg), HasSubstr(words)) << arg;
  }
  const auto uneven = StartJob("uneven", Hybrid(2, 1),
                               {std::string("--") + kGuard + "=gpu", "--global_batch_size=63"});
  EXPECT_NE(uneven->Wait(), 0);
  EXPECT_THAT(uneven->Output(),
              HasSubstr("a batch of 63 samples cannot be divided equally among 2 trainers"));
  WriteJob("distributed");
  std::string dense = ReadWholeFile(job_);
  job_ = Write("dense.pbtxt", dense.replace(dense.find("\"distributed\" value: \"1\""), 24,
                                            "\"distributed\" value: \"0\""));
  EXPECT_THAT(refused("dense", "--epochs=1"), HasSubstr("a network with sparse gradients"));
}

}  // namespace
}  // namespace tandem::trainer
