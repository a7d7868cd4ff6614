// nccl_socket_ifname, nccl_p2p_disable, nccl_ib_disable, nccl_ib_cuda_support, nccl_debug and
// nccl_launch_mode: the trainer sets NCCL's environment variables to the values of these knobs
// before it creates the first communicator.
#include "trainer/config/nccl_environment.h"
#include "gmock/gmock.h"
#include "proto/strategy.pb.h"
#include "tests/support/device_job_test.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(NcclEnvironment, OfKnobsThatAreSet) {
  RuntimeFlags flags;
  EXPECT_THAT(NcclEnvironment(flags), IsEmpty());
  flags.set_nccl_p2p_disable(true);
  flags.set_nccl_ib_disable(false);
  flags.set_nccl_ib_cuda_support(false);
  flags.set_nccl_debug("");
  EXPECT_THAT(NcclEnvironment(flags),
              UnorderedElementsAre(Pair("NCCL_P2P_DISABLE", "1"), Pair("NCCL_IB_DISABLE", "0"),
                                   Pair("NCCL_NET_GDR_LEVEL", "LOC")));
  EXPECT_EQ(NcclVariables({{"A", "1"}, {"NCCL_B", "2"}, {"NCCL_C", "3"}, {"Z", "4"}}),
            "NCCL_B=2 NCCL_C=3");
}

class NcclEnvironmentJob : public DeviceJobTest {
 protected:
  // Returns the first line of NCCL's log for a job, and the output of the job.
  std::pair<std::string, std::string> InitOf(const std::string& name, Args args, Env env = {}) {
    env["TANDEM_FAKE_NCCL_LOG"] = Path(name + ".nccl");
    args.push_back("--steps_max=2");
    const JobRun run = RunRanks(name, 1, OnDevice(args), env);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    const std::string log = ReadWholeFile(Path(name + ".nccl"));
    return {log.substr(0, log.find('\n')), run.output};
  }
};

TEST_F(NcclEnvironmentJob, ReachesTheLibrary) {
  EXPECT_EQ(InitOf("none", {}).first, "init rank 0 of 1");
  const auto [init, output] = InitOf(
      "all", {"--nccl_socket_ifname=lo", "--nccl_p2p_disable=true", "--nccl_ib_disable=true",
              "--nccl_ib_cuda_support=true", "--nccl_debug=WARN", "--nccl_launch_mode=GROUP"});
  EXPECT_EQ(init,
            "init rank 0 of 1 NCCL_SOCKET_IFNAME=lo NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 "
            "NCCL_NET_GDR_LEVEL=SYS NCCL_DEBUG=WARN NCCL_LAUNCH_MODE=GROUP");
  EXPECT_THAT(output, HasSubstr("environment of NCCL: NCCL_DEBUG=WARN"));
}

// An NCCL variable in the user's environment keeps its value, unless the job sets the same
// variable.
TEST_F(NcclEnvironmentJob, TheJobGoesBeforeTheEnvironment) {
  const Env env = {{"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_DEBUG", "WARN"}, {"NCCL_ALGO", "Ring"}};
  const auto [init, output] = InitOf("both", {"--nccl_debug=VERSION"}, env);
  EXPECT_EQ(init, "init rank 0 of 1 NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=VERSION");
  EXPECT_THAT(output, HasSubstr("NCCL_ALGO=Ring NCCL_DEBUG=VERSION NCCL_SOCKET_IFNAME=lo"));
  EXPECT_THAT(output, Not(HasSubstr("NCCL_DEBUG=WARN")));
}

}  // namespace
}  // namespace tandem::trainer
