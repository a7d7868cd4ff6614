// allreduce_choice: ByModel fits the cost of each algorithm and prints its predictions and choices.
// The choice does not change a sum over two ranks.
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Args = std::vector<std::string>;

class AllReduceChoiceTest : public JobTest {
 protected:
  JobRun Train(const std::string& name, int ranks, Args args) const {
    args.insert(args.end(), {"--steps_max=20", "--global_batch_size=120"});
    return RunJob(name, {"--mode=collective", "--nproc=" + std::to_string(ranks)}, args);
  }
};

TEST_F(AllReduceChoiceTest, ChoosesForEachBucketAndSaysSo) {
  const Args layers = {"--collective_transport=Tcp", "--fuse_grad_size_in_MB=-1"};
  Args by_model = layers;
  by_model.push_back("--allreduce_choice=ByModel");
  const JobRun rule = Train("rule", 2, layers), model = Train("model", 2, by_model);
  EXPECT_THAT(rule.output, Not(HasSubstr("predicted")));
  for (const char* layer : {"fc_0", "fc_1", "fc_2"}) {
    EXPECT_THAT(model.output,
                ContainsRegex(std::string("allreduce of ") + layer +
                              ".*bytes: (pair|direct|ring|halving), measured .* us \\(predicted: "
                              "pair .* us, direct .* us, ring .* us, halving .* us\\)"));
  }
  EXPECT_EQ(model.result.params_sha256, rule.result.params_sha256) << "a + b is a + b";
  EXPECT_EQ(model.result.counts.at("comm"), rule.result.counts.at("comm"));
}

TEST_F(AllReduceChoiceTest, GroupsAreAmongTheChoices) {
  const JobRun run = Train("groups", 4,
                           {"--allreduce_choice=ByModel", "--use_hierarchical_allreduce=true",
                            "--hierarchical_allreduce_inter_nranks=2", "--nccl_comm_num=2"});
  EXPECT_THAT(run.output, ContainsRegex("predicted: direct .*ring .*leaders .*shards "));
}

TEST_F(AllReduceChoiceTest, SharedMemoryNeedsNone) {
  const JobRun run = Train("shm", 2, {"--allreduce_choice=ByModel"});
  EXPECT_THAT(run.output, HasSubstr("through shared memory have only one algorithm"));
}

TEST_F(AllReduceChoiceTest, IsRefusedWhereBitsMustBeTheSame) {
  const auto refused = [this](const Args& launch, const Args& args, const std::string& why) {
    const auto job = StartJob("refused", launch, args);
    EXPECT_NE(job->Wait(60), 0);
    EXPECT_THAT(job->Output(), HasSubstr(why));
  };
  const Args two = {"--mode=collective", "--nproc=2"};
  refused(two, {"--allreduce_choice=ByModel", "--deterministic=true"}, "allreduce_choice");
  refused({"--mode=collective", "--nproc=2", "--max_restarts=1"}, {"--allreduce_choice=ByModel"},
          "would choose again after a restart");
}

}  // namespace
}  // namespace tandem::trainer
