// Jobs with --place=cuda over the CUDA of host memory (tests/cuda_on_host), which is looked for
// beside the program: the CUDA module's own code, with plain loops for cuBLASLt and cuDNN.
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

  // One trainer on `place`, without a launcher. What CUDA was asked for is in Log(name).
  JobRun Run(const std::string& name, const std::string& place, Args flags, Env env = {}) const {
    flags.push_back("--place=" + place);
    env["TANDEM_CUDA_ON_HOST_LOG"] = Path(name + ".log");
    return DeviceJobTest::Run(name, flags, env);
  }
  // What tests/cuda_on_host/notes.h kept of a run.
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
