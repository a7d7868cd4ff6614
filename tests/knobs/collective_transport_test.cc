// collective_transport: the transport of a job's collectives. The sums have the same bits with each
// transport.
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

class CollectiveTransportTest : public JobTest {
 protected:
  JobRun Train(const std::string& name, int ranks, Args args) const {
    args.insert(args.end(), {"--steps_max=40", "--threads=1"});
    return RunJob(name, {"--mode=collective", "--nproc=" + std::to_string(ranks)}, args);
  }
};

TEST_F(CollectiveTransportTest, TheSameBits) {
  for (const int ranks : {2, 3}) {
    const Args batch = {"--global_batch_size=126"};
    Args tcp = batch, shm = batch;
    tcp.push_back("--collective_transport=Tcp");
    shm.push_back("--collective_transport=Shm");
    const JobRun over_tcp = Train(absl::StrFormat("tcp%d", ranks), ranks, tcp);
    const JobRun over_shm = Train(absl::StrFormat("shm%d", ranks), ranks, shm);
    const JobRun by_itself = Train(absl::StrFormat("auto%d", ranks), ranks, batch);
    EXPECT_THAT(over_tcp.output, HasSubstr("collectives use tcp"));
    EXPECT_THAT(over_shm.output, HasSubstr("collectives use shm"));
    EXPECT_THAT(by_itself.output, HasSubstr("collectives use shm"));
    EXPECT_EQ(over_tcp.result.params_sha256, over_shm.result.params_sha256) << ranks;
    EXPECT_EQ(over_tcp.result.params_sha256, by_itself.result.params_sha256) << ranks;
  }
}

// Two communicators share several gradient buckets. Some buckets hold one tensor, others many
// tensors.
TEST_F(CollectiveTransportTest, TheSameBitsWithManyCommunicators) {
  const Args many = {"--nccl_comm_num=2", "--sync_nccl_allreduce=false",
                     "--fuse_grad_size_in_MB=0.05"};
  Args tcp = many;
  tcp.push_back("--collective_transport=Tcp");
  EXPECT_EQ(Train("many-tcp", 2, tcp).result.params_sha256,
            Train("many-shm", 2, many).result.params_sha256);
}

// Hierarchical groups are supported only over sockets.
TEST_F(CollectiveTransportTest, GroupsRefuseSharedMemory) {
  Args args = {"--use_hierarchical_allreduce=true", "--hierarchical_allreduce_inter_nranks=2"};
  const JobRun grouped = Train("groups", 4, args);
  EXPECT_THAT(grouped.output, HasSubstr("collectives use tcp"));
  args.insert(args.end(), {"--collective_transport=Shm", "--steps_max=2"});
  const auto job = StartJob("refused", {"--mode=collective", "--nproc=4"}, args);
  EXPECT_NE(job->Wait(), 0);
  EXPECT_THAT(job->Output(), HasSubstr("shared memory does not support groups of"));
}

}  // namespace
}  // namespace tandem::trainer
