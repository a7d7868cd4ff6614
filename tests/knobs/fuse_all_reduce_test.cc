// fuse_all_reduce_ops, fuse_grad_size_in_MB, fuse_grad_size_in_TFLOPS, last_comm_group_size_MB: the
// number of collectives in a step, and the size of the last collective. The flags do not change the
// bits of the trained parameters.
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class FuseAllReduceTest : public KnobProgramTest {
 protected:
  // Returns the number of collectives in a step of LeNet (10 gradients in 5 layers) with these
  // knobs.
  int Collectives(Overrides knobs) {
    knobs.emplace_back("mode", "collective");
    return Count(Programs(knobs, 2).train, "c_allreduce_sum");
  }
  // Returns the number of gradients in each collective, in the order of the step. *last_bytes gets
  // the size of the last collective in bytes.
  std::vector<size_t> Sizes(Overrides knobs, size_t* last_bytes) {
    knobs.emplace_back("mode", "collective");
    const graph::Program program = Programs(knobs, 2).train;
    std::vector<size_t> sizes;
    for (const ops::Op& op : program.ops) {
      if (op.type != "c_allreduce_sum") continue;
      sizes.push_back(op.outputs[0].size());
      *last_bytes = 0;
      for (const std::string& grad : op.outputs[0]) {
        *last_bytes += program.FindVar(grad)->desc.bytes();
      }
    }
    return sizes;
  }
};

TEST_F(FuseAllReduceTest, CollectivesOfAStep) {
  EXPECT_EQ(Collectives({}), 1);
  EXPECT_EQ(Collectives({{"fuse_all_reduce_ops", "false"}}), 10);
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_MB", "-1"}}), 5) << "one a layer";
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_MB", "0.001"}}), 5) << "every layer is larger";
  // A layer has two gradients. With a limit of 3, a bucket ends with the layer after which it has
  // more than three gradients.
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_TFLOPS", "3"}}), 3);
  EXPECT_EQ(Collectives({{"fuse_grad_size_in_TFLOPS", "20"}}), 1);
}

TEST_F(FuseAllReduceTest, TheLastOneIsAsSmallAsAsked) {
  using testing::ElementsAre;
  size_t bytes = 0;
  EXPECT_THAT(Sizes({}, &bytes), ElementsAre(10)) << "LeNet is below 1 MB";
  EXPECT_THAT(Sizes({{"last_comm_group_size_MB", "0"}}, &bytes), ElementsAre(10));
  // The last collective holds the gradients of the two convolutions, which backward computes last.
  // The gradients of the layer before would exceed the limit, because they have 120 KB.
  EXPECT_THAT(Sizes({{"last_comm_group_size_MB", "0.05"}}, &bytes), ElementsAre(6, 4));
  EXPECT_LE(bytes, 0.05 * 1048576);
  EXPECT_THAT(Sizes({{"last_comm_group_size_MB", "0.005"}}, &bytes), ElementsAre(8, 2));
  EXPECT_LE(bytes, 0.005 * 1048576);
  EXPECT_THAT(Sizes({{"last_comm_group_size_MB", "0.00001"}}, &bytes), ElementsAre(8, 2))
      << "one layer at least";
  EXPECT_THAT(
      Sizes({{"last_comm_group_size_MB", "0.005"}, {"fuse_grad_size_in_MB", "0.03"}}, &bytes),
      ElementsAre(4, 2, 2, 2))
      << "others as they were";
  EXPECT_EQ(Collectives({{"fuse_all_reduce_ops", "false"}, {"last_comm_group_size_MB", "0.005"}}),
            10);
}

TEST_F(FuseAllReduceTest, GroupingChangesNoBit) {
  const auto sha = [this](const std::string& name, const std::string& flag) {
    return RunJob(name, {"--mode=collective", "--nproc=2"}, {flag, "--steps_max=20"})
        .result.params_sha256;
  };
  const std::string fused = sha("fused", "--fuse_all_reduce_ops=true");
  EXPECT_EQ(sha("single", "--fuse_all_reduce_ops=false"), fused);
  EXPECT_EQ(sha("layers", "--fuse_grad_size_in_MB=-1"), fused);
  EXPECT_EQ(sha("last", "--last_comm_group_size_MB=0.005"), fused);
}

}  // namespace
}  // namespace tandem::trainer
