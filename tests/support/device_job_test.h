// Runs jobs with --place=cuda on the stand-in device (guarded_device_module.cc). The programs load
// the device module and the stand-in NCCL from the directory of the test program.
#pragma once

#include <filesystem>

#include "tests/support/process_test_util.h"

namespace tandem {

class DeviceJobTest : public JobTest {
 protected:
  using Args = std::vector<std::string>;
  using Env = std::map<std::string, std::string>;

  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    job_ = Write("mlp.pbtxt", kJob);
    ASSERT_TRUE(LinkInto("../tests/guarded_device"));
  }
  // Makes later programs run in the directory `folder` of build/bin. The programs load their CUDA
  // module from this directory. Returns false if this build has no such module.
  bool LinkInto(const std::string& folder) {
    folder_ = folder;
    const auto there = BinDir() / folder;
    if (!std::filesystem::exists(there / "libtandem_cuda.so") &&
        !std::filesystem::exists(there / "../lib/libtandem_cuda.so")) {
      return false;
    }
    std::filesystem::create_directories(there);
    for (const char* program : {"tandem-trainer", "tandem-pserver"}) {
      std::filesystem::remove(Linked(program));
      std::filesystem::create_hard_link(BinDir() / program, Linked(program));
    }
    return true;
  }

  // Runs one trainer, without a launcher.
  JobRun Run(const std::string& name, Args args, const Env& env = {}) const {
    args.insert(args.begin(), "--job_file=" + job_);
    args.push_back("--result_json=" + Path(name + ".json"));
    ChildProcess trainer(folder_ + "/tandem-trainer", args, env, Path(name + ".out"));
    return End(name, trainer);
  }
  // Runs `ranks` trainers in collective mode. `args` must choose the device.
  JobRun RunRanks(const std::string& name, int ranks, const Args& args, const Env& env = {}) const {
    Args all = {"--mode=collective",
                "--nproc=" + std::to_string(ranks),
                "--trainer_bin=" + Trainer().string(),
                "--log_dir=" + Path(name + ".log"),
                job_,
                "--"};
    all.insert(all.end(), args.begin(), args.end());
    all.push_back("--result_json=" + Path(name + ".json"));
    ChildProcess launcher("tandemrun", all, env, Path(name + ".out"));
    return End(name, launcher);
  }
  // Runs two servers, whose slices are on `place`, and `workers` trainers.
  JobRun RunServers(const std::string& name, const std::string& place, const Args& args,
                    const std::string& mode = "pserver", int workers = 2,
                    const Args& launch = {}) const {
    Args all = {"--mode=" + mode,
                "--servers=2",
                "--workers=" + std::to_string(workers),
                "--pserver_place=" + place,
                "--pserver_bin=" + Linked("tandem-pserver").string(),
                "--trainer_bin=" + Trainer().string(),
                "--log_dir=" + Path(name + ".log"),
                job_,
                "--"};
    all.insert(all.begin(), launch.begin(), launch.end());
    all.insert(all.end(), args.begin(), args.end());
    all.push_back("--result_json=" + Path(name + ".json"));
    ChildProcess launcher("tandemrun", all, {}, Path(name + ".out"));
    return End(name, launcher);
  }
  // Runs the same job on the CPU and on the device and expects the same bits.
  void ExpectSameBits(const std::string& name, const Args& args) const {
    ExpectSame(name, Run(name + "_cpu", args), Run(name, OnDevice(args)));
  }
  static void ExpectSame(const std::string& name, const JobRun& cpu, const JobRun& device) {
    ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
    ASSERT_EQ(device.exit_code, 0) << device.output;
    EXPECT_EQ(device.result.params_sha256, cpu.result.params_sha256) << name;
    EXPECT_EQ(device.result.loss, cpu.result.loss) << name;
    EXPECT_EQ(device.result.accuracy, cpu.result.accuracy) << name;
  }
  static Args OnDevice(Args args) {
    args.push_back("--place=cuda");
    return args;
  }

 private:
  JobRun End(const std::string& name, ChildProcess& process) const {
    JobRun run;
    run.exit_code = process.Wait();
    run.output = process.Output();
    if (run.exit_code == 0) run.result = ResultOf(name);
    return run;
  }
  static std::filesystem::path BinDir() { return std::getenv("TANDEM_BIN_DIR"); }
  std::filesystem::path Linked(const std::string& program) const {
    return BinDir() / folder_ / program;
  }
  std::filesystem::path Trainer() const { return Linked("tandem-trainer"); }

  std::string folder_;
  static constexpr const char* kJob = R"(
name: "mlp"
model { zoo: "mlp" arg { name: "hidden" value: "32,16" } arg { name: "image" value: "1,8,8" } }
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 640 test_samples: 150 }
}
optimizer { type: "momentum" learning_rate: 0.05 }
global_batch_size: 32
epochs: 2
seed: 3
log_every_steps: 5
)";
};

}  // namespace tandem
