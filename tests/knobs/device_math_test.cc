// enable_cublas_tensor_op_math and cudnn_batchnorm_spatial_persistent: the requests to cuBLASLt and
// cuDNN on a CUDA place. Both are stand-ins (tests/cuda_on_host), which log requests and round to
// TF32 as tensor cores do.
#include "gmock/gmock.h"
#include "tests/support/built_program.h"
#include "tests/support/cuda_on_host_job.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kMathJob = R"(
name: "normed"
model { program: "program.pbtxt" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 64 test_samples: 16 }
}
optimizer { type: "sgd" learning_rate: 0.05 }
global_batch_size: 8
seed: 3
)";

// A convolution, its normalisation and a fully connected layer. The program is small, so that
// rounding errors stay small.
std::string NormedProgram() {
  graph::ProgramBuilder b("normed", 8);
  const std::string conv = b.Conv2d(b.Data("img", DType::kF32, {1, 8, 8}),
                                    {.channels = 4, .kernel = 3, .padding = 1, .bias = false});
  b.SoftmaxLoss(b.Fc(b.BatchNorm(conv), 10), b.Data("label", DType::kI64, {1}));
  return TextOf(b);
}

// A block with two parallel branches: relu(norm1(conv1(x)) + norm2(conv2(x))), where x is
// relu(norm0(conv0(images))). Each conv and each norm has separate parameters.
std::string ResidualProgram() {
  graph::ProgramBuilder b("residual", 8);
  const auto norm = [&b](const std::string& x, graph::Act act) {
    return b.BatchNorm(b.Conv2d(x, {.channels = 16, .kernel = 3, .padding = 1, .bias = false}),
                       act);
  };
  const std::string x = norm(b.Data("img", DType::kF32, {1, 8, 8}), graph::Act::kRelu);
  const std::string y = b.Relu(b.Add(norm(x, graph::Act::kNone), norm(x, graph::Act::kNone)));
  b.SoftmaxLoss(b.Fc(y, 10), b.Data("label", DType::kI64, {1}));
  return TextOf(b);
}

class DeviceMath : public CudaOnHostTest {
 protected:
  void SetUp() override {
    CudaOnHostTest::SetUp();
    if (IsSkipped()) return;
    Write("program.pbtxt", NormedProgram());
    job_ = Write("normed.pbtxt", kMathJob);
  }

  struct Trained {
    double loss;
    std::string asked;  // the log of cuBLASLt and cuDNN calls
  };
  Trained Train(const std::string& name, const std::string& place, Args flags) const {
    flags.push_back("--steps_max=4");
    const JobRun run = Run(name, place, flags);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return {run.result.loss, place == "cpu" ? "" : Log(name)};
  }
};

TEST_F(DeviceMath, ProductsMayBeOfTf32) {
  const Args on = {"--enable_cublas_tensor_op_math=true"};
  const Trained exact = Train("exact", "cuda", {}), tf32 = Train("tf32", "cuda", on);
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
  const Trained persistent = Train("persistent", "cuda", {}), plain = Train("plain", "cuda", off);
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

// With channels last, the cuDNN plan of a normalisation includes the operators after the
// normalisation.
TEST_F(DeviceMath, HalfNormalisationsAreGraphs) {
  Write("program.pbtxt", ResidualProgram());
  const Args half = {"--amp=true", "--amp_dtype=bf16", "--fuse_bn_act_ops=true"};
  Args off = half;
  off.push_back("--cudnn_batchnorm_spatial_persistent=false");
  const Trained graphs = Train("graphs", "cuda", half), plain = Train("plain", "cuda", off);
  for (const std::string operations :
       {"norm", "norm relu", "norm add relu", "norm_grad", "greater mul norm_grad"}) {
    EXPECT_THAT(graphs.asked, HasSubstr("cudnnBackendExecute " + operations + "\n"));
  }
  EXPECT_THAT(plain.asked, Not(HasSubstr("cudnnBackendExecute norm")));
  EXPECT_THAT(graphs.asked, Not(HasSubstr("cudnnBatchNormalization")));
  EXPECT_NEAR(graphs.loss, plain.loss, 2e-2);
  EXPECT_NEAR(graphs.loss, Train("cpu", "cpu", half).loss, 2e-2);
}

// cuDNN does not support an output that shares memory with an input.
TEST_F(DeviceMath, NormalisationsAreNotInPlace) {
  Write("program.pbtxt", ResidualProgram());
  const Args apart = {"--amp=true", "--amp_dtype=bf16", "--fuse_bn_act_ops=true"};
  Args shared = apart;
  shared.push_back("--enable_inplace=true");
  EXPECT_EQ(Train("shared", "cuda", shared).loss, Train("apart", "cuda", apart).loss);
}

}  // namespace
}  // namespace tandem::trainer
