// fuse_all_reduce_ops, fuse_grad_size_in_MB, fuse_grad_size_in_TFLOPS: how many collectives a step
// has, and that their number changes no bit.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem {
namespace {

class FuseAllReduceTest : public KnobProgramTest {
 protected:
  // Collectives of a step of LeNet (10 gradients in 5 layers), from the knobs to the program.
  int Collectives(Overrides knobs) {
    knobs.emplace_back("mode", "collective");
    return Count(Programs(knobs, 2).train, "c_allreduce_sum");
  }
};

TEST_F(FuseAllReduceTest, CollectivesOfAStep) {
  EXPECT_EQ(Collectives({}), 1);
  EXPECT_EQ(Collectives({{"fuse_all_reduce_ops", "false"}}), 10);
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_MB", "-1"}}), 5) << "one a layer";
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_MB", "0.001"}}), 5) << "every layer is larger";
  // Layers have two gradients: a group closes with the first layer that brings it above three.
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_TFLOPS", "3"}}), 3);
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_TFLOPS", "20"}}), 1);
}

TEST_F(FuseAllReduceTest, GroupingChangesNoBit) {
  const auto sha = [this](const std::string& name, const std::string& flag) {
    return RunJob(name, {"--mode=collective", "--nproc=2"}, {flag, "--steps_max=20"})
        .result.params_sha256;
  };
  const std::string fused = sha("fused", "--fuse_all_reduce_ops=true");
  EXPECT_EQ(sha("single", "--fuse_all_reduce_ops=false"), fused);
  EXPECT_EQ(sha("layers", "--fuse_grad_size_in_MB=-1"), fused);
}

}  // namespace
}  // namespace tandem
