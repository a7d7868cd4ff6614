// fuse_all_reduce_ops, fuse_grad_size_in_MB, fuse_grad_size_in_TFLOPS: how many collectives a step
// has, and that their number changes no bit.
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/support/process_test_util.h"
#include "trainer/job.h"
#include "trainer/programs.h"

namespace tandem {
namespace {

using Overrides = std::vector<std::pair<std::string, std::string>>;

class FuseAllReduceTest : public JobTest {
 protected:
  // Collectives of a step of LeNet (10 gradients in 5 layers), from the knobs to the program.
  int Collectives(const Overrides& knobs) {
    JobSources sources;
    sources.path = job_;
    sources.overrides = knobs;
    sources.overrides.emplace_back("mode", "collective");
    const auto job = LoadJob(sources, 2);
    EXPECT_TRUE(job.ok()) << job.status();
    RankInfo rank;
    rank.size = 2;
    rank.rendezvous = "127.0.0.1:1";
    const auto options = ModeOptionsOf(*job->config, rank, "secret");
    EXPECT_TRUE(options.ok()) << options.status();
    const auto mode = MakeMode(*job->config, *options);
    EXPECT_TRUE(mode.ok()) << mode.status();
    const auto programs = BuildPrograms(*job->config, "", 8, 2, **mode);
    EXPECT_TRUE(programs.ok()) << programs.status();
    int count = 0;
    for (const Op& op : programs->train.ops) count += op.type == "c_allreduce_sum" ? 1 : 0;
    return count;
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
