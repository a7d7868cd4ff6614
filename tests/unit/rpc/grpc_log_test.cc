#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "gmock/gmock.h"

namespace tandem::rpc {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(OneLineTest, EscapesAndCuts) {
  EXPECT_EQ(OneLine("plain words"), "plain words");
  EXPECT_EQ(OneLine("x\nW1124 forged\x1b[31m\xff"), "x\\nW1124 forged\\x1b[31m\\xff");
  EXPECT_LE(OneLine(std::string(100'000, '\x01')).size(), 260u);
}

TEST(LogPaceTest, OneLineASecondForEachFile) {
  LogPace pace;
  const Time now(std::chrono::hours(1));
  EXPECT_EQ(pace.Admit("a.cc", now), 0u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pace.Admit("a.cc", now), std::nullopt);
  EXPECT_EQ(pace.Admit("b.cc", now), 0u);
  EXPECT_EQ(pace.Admit("a.cc", now + std::chrono::seconds(1)), 5u);
  EXPECT_EQ(pace.Admit("a.cc", now + std::chrono::seconds(2)), 0u);
}

TEST(GrpcLogTest, AFloodIsFewLinesAndNoneIsForged) {
  InstallGrpcLog();
  gpr_log_verbosity_init();  // sets the log level as grpc_init() does
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10'000; ++i) gpr_log(GPR_ERROR, "x\nW1124 forged \x1b[31m");
  gpr_log("tls.cc", 1, GPR_LOG_SEVERITY_ERROR, "cancel_check_peer: no request");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("gRPC: x\\nW1124 forged \\x1b[31m"));
  EXPECT_THAT(said, Not(HasSubstr("cancel_check_peer")));
  EXPECT_LT(said.size(), 3'000u);
}

}  // namespace
}  // namespace tandem::rpc
