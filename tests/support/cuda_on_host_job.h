// Jobs with --place=cuda over the CUDA of host memory (tests/cuda_on_host), which is looked for
// beside the program: the CUDA module's own code, with plain loops for cuBLASLt and cuDNN.
#pragma once

#include <filesystem>

#include "tests/support/process_test_util.h"

namespace tandem {

class CudaOnHostTest : public JobTest {
 protected:
  using Args = std::vector<std::string>;
  using Env = std::map<std::string, std::string>;

  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    const std::filesystem::path bin = std::getenv("TANDEM_BIN_DIR");
    const auto folder = bin / "../tests/cuda_on_host";
    if (!std::filesystem::exists(folder / "lib/libtandem_cuda.so")) {
      GTEST_SKIP() << "this build has no CUDA of host memory";
    }
    std::filesystem::create_directories(folder / "bin");
    std::filesystem::remove(folder / "bin/tandem-trainer");
    std::filesystem::create_hard_link(bin / "tandem-trainer", folder / "bin/tandem-trainer");
    job_ = Write("normed.pbtxt", kJob);
  }

  // One trainer on `place`, without a launcher. What CUDA was asked for is in Log(name).
  JobRun Run(const std::string& name, const std::string& place, const Args& flags,
             Env env = {}) const {
    Args args = {"--job_file=" + job_, "--place=" + place, "--result_json=" + Path(name + ".json")};
    args.insert(args.end(), flags.begin(), flags.end());
    env["TANDEM_CUDA_ON_HOST_LOG"] = Path(name + ".log");
    ChildProcess trainer("../tests/cuda_on_host/bin/tandem-trainer", args, env,
                         Path(name + ".out"));
    JobRun run;
    run.exit_code = trainer.Wait();
    run.output = trainer.Output();
    if (run.exit_code == 0) run.result = ResultOf(name);
    return run;
  }
  // What tests/cuda_on_host/notes.h kept of a run.
  std::string Log(const std::string& name) const { return ReadWholeFile(Path(name + ".log")); }

  static constexpr const char* kJob = R"(
name: "normed"
model { zoo: "mobilenet_v1" arg { name: "width" value: "8" } arg { name: "image" value: "1,8,8" } }
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 64 test_samples: 16 }
}
optimizer { type: "sgd" learning_rate: 0.05 }
global_batch_size: 8
seed: 3
)";
};

}  // namespace tandem
