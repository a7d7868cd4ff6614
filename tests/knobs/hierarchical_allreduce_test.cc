// use_hierarchical_allreduce, hierarchical_allreduce_inter_nranks, hierarchical_allreduce_form:
// whole jobs train with these knobs. collective_ring_test counts the bytes between groups.
#include <set>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

class HierarchicalTest : public JobTest {
 protected:
  JobRun Train(const std::string& name, int ranks, Args args) const {
    args.insert(args.end(), {"--steps_max=40", "--threads=1"});
    return RunJob(name, {"--mode=collective", "--nproc=" + std::to_string(ranks)}, args);
  }
};

const Args kGroupsOfTwo = {"--use_hierarchical_allreduce=true",
                           "--hierarchical_allreduce_inter_nranks=2"};

TEST_F(HierarchicalTest, TheSameSumsInAnotherOrder) {
  const JobRun flat = Train("flat", 4, {});
  std::set<std::string> bits;
  for (const std::string form : {"Leaders", "Shards"}) {
    Args args = kGroupsOfTwo;
    args.push_back("--hierarchical_allreduce_form=" + form);
    const JobRun run = Train(form, 4, args);
    EXPECT_THAT(run.output, HasSubstr("hierarchical allreduce: groups [0..1] [2..3]; leaders 0 2"));
    EXPECT_NEAR(run.result.loss, flat.result.loss, 1e-3 * flat.result.loss);
    EXPECT_NE(run.result.params_sha256, flat.result.params_sha256) << form;
    bits.insert(run.result.params_sha256);
  }
  EXPECT_EQ(bits.size(), 1u) << "with groups of two both forms add (0 + 1) + (2 + 3)";
}

// With only one group the job uses the flat ring.
TEST_F(HierarchicalTest, OneGroupIsTheFlatRing) {
  const JobRun flat = Train("flat", 2, {}), one = Train("one", 2, kGroupsOfTwo);
  EXPECT_THAT(one.output, HasSubstr("only one group"));
  EXPECT_EQ(one.result.params_sha256, flat.result.params_sha256);
}

TEST_F(HierarchicalTest, GroupsMustBeEqual) {
  Args args = kGroupsOfTwo;
  args.push_back("--global_batch_size=129");
  const auto job = StartJob("three", {"--mode=collective", "--nproc=3"}, args);
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("2 is not a divisor of the number of trainers, 3"));
}

}  // namespace
}  // namespace tandem::trainer
