// pserver_transport: the transport of gradients and parameters. A job gives the same bits with each
// transport.
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

class PserverTransportTest : public JobTest {
 protected:
  JobRun Train(const std::string& name, Args args) const {
    args.insert(args.end(), {"--steps_max=40", "--threads=1"});
    return RunJob(name, {"--mode=pserver", "--servers=2", "--workers=2"}, args);
  }
};

TEST_F(PserverTransportTest, TheSameBits) {
  const JobRun grpc = Train("grpc", {"--pserver_transport=Grpc"});
  const JobRun shm = Train("shm", {"--pserver_transport=Shm"});
  const JobRun by_itself = Train("auto", {});
  EXPECT_THAT(grpc.output, HasSubstr("0 of 2 pservers use shared memory"));
  EXPECT_THAT(shm.output, HasSubstr("2 of 2 pservers use shared memory"));
  EXPECT_THAT(by_itself.output, HasSubstr("2 of 2 pservers use shared memory"));
  EXPECT_EQ(grpc.result.params_sha256, shm.result.params_sha256);
  EXPECT_EQ(grpc.result.params_sha256, by_itself.result.params_sha256);
}

}  // namespace
}  // namespace tandem::trainer
