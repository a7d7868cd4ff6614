// enable_cublas_tensor_op_math and cudnn_batchnorm_spatial_persistent: what cuBLASLt and cuDNN are
// asked for on a CUDA place. They are stand-ins (tests/cuda_on_host), which note it, and round to
// TF32 as tensor cores do.
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Args = std::vector<std::string>;

constexpr const char* kJob = R"(
name: "normed"
model { zoo: "residual_cnn" arg { name: "channels" value: "4,8" } arg { name: "blocks" value: "1" }
        arg { name: "image" value: "1,8,8" } }
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 64 test_samples: 16 }
}
optimizer { type: "sgd" learning_rate: 0.05 }
global_batch_size: 8
seed: 3
)";

class DeviceMath : public JobTest {
 protected:
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

  struct Run {
    double loss;
    std::string asked;  // of the libraries
  };
  Run Train(const std::string& name, const std::string& place, const Args& flags) const {
    Args args = {"--job_file=" + job_, "--place=" + place, "--steps_max=4",
                 "--result_json=" + Path(name + ".json")};
    args.insert(args.end(), flags.begin(), flags.end());
    ChildProcess trainer("../tests/cuda_on_host/bin/tandem-trainer", args,
                         {{"TANDEM_CUDA_ON_HOST_LOG", Path(name + ".log")}}, Path(name + ".out"));
    EXPECT_EQ(trainer.Wait(), 0) << trainer.Output();
    return {ResultOf(name).loss, place == "cpu" ? "" : ReadWholeFile(Path(name + ".log"))};
  }
};

TEST_F(DeviceMath, ProductsMayBeOfTf32) {
  const Args on = {"--enable_cublas_tensor_op_math=true"};
  const Run exact = Train("exact", "cuda", {}), tf32 = Train("tf32", "cuda", on);
  EXPECT_THAT(exact.asked, HasSubstr("cublasLtMatmul 32F\n"));
  EXPECT_THAT(exact.asked, Not(HasSubstr("TF32")));
  EXPECT_THAT(tf32.asked, HasSubstr("cublasLtMatmul 32F_FAST_TF32\n"));
  EXPECT_THAT(tf32.asked, Not(HasSubstr("cublasLtMatmul 32F\n")));
  EXPECT_NE(tf32.loss, exact.loss);
  EXPECT_NEAR(tf32.loss, exact.loss, 1e-2);
  EXPECT_EQ(Train("cpu_on", "cpu", on).loss, Train("cpu", "cpu", {}).loss);
}

TEST_F(DeviceMath, BatchNormIsPersistentOrNot) {
  const Args off = {"--cudnn_batchnorm_spatial_persistent=false"};
  const Run persistent = Train("persistent", "cuda", {}), plain = Train("plain", "cuda", off);
  for (const std::string call :
       {"cudnnBatchNormalizationForwardTraining", "cudnnBatchNormalizationBackward"}) {
    EXPECT_THAT(persistent.asked, HasSubstr(call + " SPATIAL_PERSISTENT\n"));
    EXPECT_THAT(persistent.asked, Not(HasSubstr(call + " SPATIAL\n")));
    EXPECT_THAT(plain.asked, HasSubstr(call + " SPATIAL\n"));
    EXPECT_THAT(plain.asked, Not(HasSubstr("PERSISTENT")));
  }
  EXPECT_EQ(persistent.loss, plain.loss);
  EXPECT_NEAR(persistent.loss, Train("cpu", "cpu", {}).loss, 1e-4);
}

}  // namespace
}  // namespace tandem
