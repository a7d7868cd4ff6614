// rpc_deadline_ms: a trainer reports a pserver that has not replied for this time.
#include <signal.h>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using RpcDeadlineTest = JobTest;

TEST_F(RpcDeadlineTest, AStoppedPserverIsReportedAfterIt) {
  ChildProcess server("tandem-pserver", {"--listen=127.0.0.1:0"}, {}, Path("server"));
  ASSERT_TRUE(server.WaitForText("\n"));
  const std::string text = server.Output();
  const size_t at = text.find("listening on ") + 13;
  const std::string address = text.substr(at, text.find('\n', at) - at);
  ChildProcess trainer("tandem-trainer",
                       {"--job_file=" + job_, "--mode=pserver", "--pservers=" + address,
                        "--epochs=1000", "--log_every_steps=1", "--rpc_deadline_ms=5000"},
                       {}, Path("trainer"));
  ASSERT_TRUE(trainer.WaitForText("step=3 ")) << trainer.Output();
  const Time begin = SteadyNow();
  server.Signal(SIGSTOP);
  EXPECT_NE(trainer.Wait(), 0);
  const double seconds = Seconds(SteadyNow() - begin);
  EXPECT_GT(seconds, 1.0);
  EXPECT_LT(seconds, 50) << "the job's step_timeout_ms is 60 s";
  EXPECT_THAT(trainer.Output(), testing::HasSubstr(address));
}

}  // namespace
}  // namespace tandem::trainer
