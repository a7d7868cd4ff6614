// Runs jobs with --place=cuda on the CUDA of host memory (tests/cuda_on_host). The jobs run the
// real code of the CUDA module, but plain loops replace cuBLASLt and cuDNN. The programs load the
// CUDA module from the directory of the test program.
#pragma once

#include "tests/support/device_job_test.h"

namespace tandem {

class CudaOnHostTest : public DeviceJobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    if (!LinkInto("../tests/cuda_on_host/bin")) {
      GTEST_SKIP() << "this build has no CUDA of host memory";
    }
    job_ = Write("normed.pbtxt", kNormed);
  }

  // Runs one trainer on `place`, without a launcher. After the call, Log(name) returns the CUDA
  // calls of the trainer.
  JobRun Run(const std::string& name, const std::string& place, Args flags, Env env = {}) const {
    flags.push_back("--place=" + place);
    env["TANDEM_CUDA_ON_HOST_LOG"] = Path(name + ".log");
    return DeviceJobTest::Run(name, flags, env);
  }
  // Returns the log of the run `name` (tests/cuda_on_host/notes.h).
  std::string Log(const std::string& name) const { return ReadWholeFile(Path(name + ".log")); }

  static constexpr const char* kNormed = R"(
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
