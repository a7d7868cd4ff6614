// Tests pserver mode with CUDA places: servers with their slices on a device, and trainers that
// compute on a device. The tests use the stand-in device, which gives the bits of the CPU. Some
// tests run the real code of the CUDA kernels in host memory.
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/support/device_job_test.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// A program that concatenates the vectors of three ids, followed by a fully connected layer.
constexpr const char* kTableProgram = R"(
name: "table"
var { name: "ids" kind: DATA dtype: I64 dims: -1 dims: 3 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "vectors" kind: PARAM dims: 45 dims: 4 init { kind: NORMAL stddev: 0.1 } }
var { name: "w" kind: PARAM dims: 12 dims: 1 init { kind: XAVIER_UNIFORM } }
op {
  type: "lookup_table"
  input { slot: "Ids" var: "ids" }
  input { slot: "W" var: "vectors" }
  output { slot: "Out" var: "found" }
  attr { name: "is_sparse" b: true }
  attr { name: "is_distributed" b: true }
}
op {
  type: "reshape"
  input { slot: "X" var: "found" }
  output { slot: "Out" var: "flat" }
  attr { name: "shape" ints { v: 0 v: 12 } }
}
op {
  type: "fc"
  input { slot: "Input" var: "flat" }
  input { slot: "W" var: "w" }
  output { slot: "Out" var: "logits" }
}
op {
  type: "sigmoid_cross_entropy"
  input { slot: "Logits" var: "logits" }
  input { slot: "Label" var: "label" }
  output { slot: "Sigmoid" var: "sigmoid" }
  output { slot: "Loss" var: "losses" }
}
op { type: "mean" input { slot: "X" var: "losses" } output { slot: "Out" var: "loss" } }
loss: "loss"
)";

constexpr const char* kTableJob = R"(
name: "table"
model { program: "table_program.pbtxt" }
data {
  format: "csv" dir: "."
  csv { train_file: "x.csv" test_file: "x.csv"
        label_column: "click" positive_label: "1" negative_label: "0"
        column { name: "a" ids: 22 } column { name: "b" ids: 13 } column { name: "c" ids: 10 } }
}
optimizer { type: "adagrad" learning_rate: 0.1 }
global_batch_size: 8
epochs: 2
seed: 3
log_every_steps: 5
)";

class DevicePserver : public DeviceJobTest {
 protected:
  // Writes a job with a table. `guarded`: whether the operators after the lookup have the default
  // device guard, "cpu".
  void UseTable(bool guarded = false) {
    std::string program = kTableProgram;
    for (const char* type : {"reshape", "fc", "sigmoid_cross_entropy", "mean"}) {
      const std::string head = absl::StrFormat("type: \"%s\"", type);
      if (guarded) {
        program.insert(program.find(head) + head.size(),
                       " attr { name: \"op_device\" s: \"cpu\" }");
      }
    }
    Write("table_program.pbtxt", program);
    std::string rows = "click,a,b,c\n";
    for (int i = 0; i < 160; ++i) {
      rows += absl::StrFormat("%d,a%d,b%d,c%d\n", i * 7 % 3 == 0, i % 20, i * i % 11, i % 7);
    }
    Write("x.csv", rows);
    job_ = Write("table.pbtxt", kTableJob);
  }
  void ExpectSlicesGiveTheSame(const std::string& name, const Args& args) const {
    ExpectSame(name, RunServers(name + "_cpu", "cpu", args), RunServers(name, "cuda", args));
  }
  void ExpectTrainersGiveTheSame(const std::string& name, const Args& args) const {
    ExpectSame(name, RunServers(name + "_cpu", "cpu", args),
               RunServers(name, "cpu", OnDevice(args)));
  }
};

TEST_F(DevicePserver, SlicesHaveTheBitsOfHosts) {
  ExpectSlicesGiveTheSame("momentum", {});
  EXPECT_THAT(ReadWholeFile(Path("momentum.log") + "/serverlog.0"),
              HasSubstr("stores slices on cuda"));
  ExpectSlicesGiveTheSame("adam", {"--optimizer.type=adam", "--optimizer.learning_rate=0.01"});
}

// The parameters and slots of a checkpoint can be loaded on the CPU and on the device.
TEST_F(DevicePserver, ResumesOnEitherPlace) {
  const JobRun whole = RunServers("whole", "cpu", {});
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string store = "--checkpoint.dir=" + Path("store");
  EXPECT_EQ(RunServers("begun", "cuda", {store, "--steps_max=20"}).exit_code, 0);
  const JobRun resumed = RunServers("resumed", "cpu", {store});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("resumed at step 20"));
  EXPECT_EQ(resumed.result.params_sha256, whole.result.params_sha256);
}

// CPU and CUDA kernels of optimizers compile the same formulas, so they give the same bits.
TEST_F(DevicePserver, TheCudaKernelsGiveTheBitsOfTheCpu) {
  if (!LinkInto("../tests/cuda_on_host/bin")) GTEST_SKIP() << "no CUDA of host memory";
  ExpectSlicesGiveTheSame(
      "kernels", {"--optimizer.type=adam", "--optimizer.learning_rate=0.01", "--steps_max=5"});
}

TEST_F(DevicePserver, WhatIsMissingIsSaid) {
  ChildProcess server("../tests/guarded_device/tandem-pserver", {"--place=cuda:1"}, {},
                      Path("server.out"));
  EXPECT_EQ(server.Wait(), 2);
  EXPECT_THAT(
      server.Output(),
      HasSubstr(
          "--place=cuda:1 cannot be used: place cuda:1 does not exist: there are only 1 CUDA"));
}

TEST_F(DevicePserver, TrainersOnTheDeviceHaveTheBitsOfHosts) {
  ExpectTrainersGiveTheSame("sync", {});
  // Both the servers and the trainers use the device.
  ExpectSame("both", RunServers("both_cpu", "cpu", {}), RunServers("both", "cuda", OnDevice({})));
}

// Geo computes differences of parameters, so it reads the parameters of the device in every step.
// With one trainer, geo does so even in steps without a message.
TEST_F(DevicePserver, GeoOnTheDevice) {
  const Args geo = {"--a_sync=true", "--a_sync_configs.k_steps=3"};
  ExpectSame("geo", RunServers("geo_cpu", "cpu", geo, "pserver", 1),
             RunServers("geo", "cpu", OnDevice(geo), "pserver", 1));
}

// Per step, only the table rows of the batch are transferred to the device and back.
TEST_F(DevicePserver, TablesOnTheDevice) {
  UseTable();
  ExpectTrainersGiveTheSame("table", {});
  EXPECT_EQ(ResultOf("table").counts.at("ps.rows"), ResultOf("table_cpu").counts.at("ps.rows"));
  const std::string store = "--checkpoint.dir=" + Path("tables");
  EXPECT_EQ(RunServers("begun", "cuda", OnDevice({store, "--steps_max=20"})).exit_code, 0);
  const JobRun resumed = RunServers("resumed", "cpu", {store});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(resumed.result.params_sha256, ResultOf("table").params_sha256);
}

// In heter mode, trainers run on hosts, and heter workers run the operators after the table lookup
// on devices.
TEST_F(DevicePserver, HeterWorkersOnTheDevice) {
  UseTable(/*guarded=*/true);
  const JobRun hosts = RunServers("hosts", "cpu", {}, "hybrid");
  for (const char* heter_workers : {"--heter_workers=1", "--heter_workers=2"}) {
    const JobRun device =
        RunServers(heter_workers, "cpu", {}, "hybrid", 2, {heter_workers, "--heter_place=cuda"});
    ExpectSame(heter_workers, hosts, device);
    EXPECT_EQ(device.result.counts.count("comm.c_allreduce_sum"), 0u);
  }
  const std::string store = "--checkpoint.dir=" + Path("heter");
  const Args fewer = {"--heter_workers=1", "--heter_place=cuda"};
  EXPECT_EQ(RunServers("begun", "cpu", {store, "--steps_max=20"}, "hybrid", 2, fewer).exit_code, 0);
  const JobRun resumed = RunServers("resumed", "cpu", {store}, "hybrid", 2, fewer);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(resumed.result.params_sha256, hosts.result.params_sha256);
}

// Servers update table rows, and NCCL reduces dense gradients.
TEST_F(DevicePserver, HybridOnTheDevice) {
  UseTable();
  ExpectSame("hybrid", RunServers("hybrid_cpu", "cpu", {}, "hybrid"),
             RunServers("hybrid", "cpu", OnDevice({}), "hybrid"));
  EXPECT_THAT(ReadWholeFile(Path("hybrid.out")), HasSubstr("NCCL 2.28.1"));
}

TEST_F(DevicePserver, ATableWithACopyIsRefused) {
  UseTable();
  std::string program = kTableProgram;
  const std::string attribute = "attr { name: \"is_distributed\" b: true }";
  Write("table_program.pbtxt", program.replace(program.find(attribute), attribute.size(), ""));
  const JobRun run = RunServers("copy", "cpu", OnDevice({}));
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output + ReadWholeFile(Path("copy.log") + "/workerlog.0"),
              HasSubstr("hint: set the model argument distributed=1"));
}

TEST_F(DevicePserver, TheCudaKernelsServeTables) {
  if (!LinkInto("../tests/cuda_on_host/bin")) GTEST_SKIP() << "no CUDA of host memory";
  UseTable();
  const Args steps = {"--steps_max=6"};
  const JobRun cpu = RunServers("cpu", "cpu", steps);
  const JobRun cuda = RunServers("cuda", "cuda", OnDevice(steps));
  ASSERT_EQ(cuda.exit_code, 0) << cuda.output;
  EXPECT_NEAR(cuda.result.loss, cpu.result.loss, 1e-5);
}

}  // namespace
}  // namespace tandem
