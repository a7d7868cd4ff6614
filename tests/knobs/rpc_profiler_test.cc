// enable_rpc_profiler: the profile of steps shows the calls to the pservers.
#include <map>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"
#include "trainer/ps/rpc_log.h"

namespace tandem::trainer {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class RpcProfilerTest : public KnobProgramTest {
 protected:
  static constexpr int kSteps = 5;
  const std::vector<std::string> launch_ = {"--mode=pserver", "--servers=2", "--workers=1"};
  std::vector<std::string> Args(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"--steps_max=12", "--profile.dir=" + Path("prof"),
                                     "--profile.first_step=4",
                                     "--profile.steps=" + std::to_string(kSteps)};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string File(const std::string& name) const { return ReadWholeFile(Path("prof/" + name)); }
};

TEST_F(RpcProfilerTest, CallsAreInTheTimelineAndInTheTable) {
  const JobRun plain = RunJob("plain", launch_, Args({}));
  EXPECT_THAT(File("profile.0.txt"), Not(HasSubstr("Bytes out")));
  const JobRun run = RunJob("profiled", launch_, Args({"--enable_rpc_profiler=true"}));
  EXPECT_EQ(run.result.params_sha256, plain.result.params_sha256);
  // In sync mode one call per step to each server sends the gradients and returns the parameters.
  EXPECT_THAT(File("profile.0.txt"), ContainsRegex("Call +Server +Calls"));
  EXPECT_THAT(File("profile.0.txt"), ContainsRegex("Push[A-Za-z]* +1 +5 +0 "));
  const json trace = json::parse(File("timeline.0.json"), nullptr, false);
  ASSERT_TRUE(trace.is_object());
  std::map<int, int> calls;  // number of calls, by index of the server
  double sent = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "rpc") continue;
    ASSERT_EQ(event["ph"], "X");
    ++calls[event["args"]["server"].get<int>()];
    sent += event["args"]["sent"].get<double>();
    EXPECT_TRUE(event["args"]["ok"].get<bool>());
    EXPECT_GT(event["dur"].get<double>(), 0);
  }
  EXPECT_EQ(calls.size(), 2U) << "both servers";
  for (const auto& [server, count] : calls) EXPECT_GE(count, kSteps);
  EXPECT_GT(sent, kSteps * 61706 * 4.0) << "LeNet's gradients, 4 bytes each";
}

TEST_F(RpcProfilerTest, NeedsAProfile) {
  const auto job = StartJob("none", launch_, {"--enable_rpc_profiler=true"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("profile { dir: \"profile\" }"));
}

TEST_F(RpcProfilerTest, TheTableAddsUpCallsOfOneKind) {
  const Time t = SteadyNow();
  const auto ms = [](int n) { return std::chrono::milliseconds(n); };
  RpcLog log(/*keep=*/true);
  log.Add({1, rpc::PserverCall::kPush, t, t + ms(2), 100, 10, true});
  log.Add({1, rpc::PserverCall::kPush, t + ms(5), t + ms(9), 300, 30, false});
  log.Add({0, rpc::PserverCall::kPull, t + ms(20), t + ms(21), 1, 1, true});
  EXPECT_THAT(RpcTable(log.Between(t, t + ms(10))),
              ContainsRegex("Push +1 +2 +1 +6.000 +2.000 +4.000 +3.000 +200 +20\n$"));
  EXPECT_EQ(RpcTable(log.Between(t + ms(10), t + ms(20))), "");
}

}  // namespace
}  // namespace tandem::trainer
