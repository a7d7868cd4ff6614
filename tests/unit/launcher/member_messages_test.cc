// Tests the messages between tandemrun and the members of a server.
#include "common/launcher/member_messages.h"

#include <sys/socket.h>

#include "common/os/fd.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(MemberMessagesTest, CommandsAndReportsKeepTheirContent) {
  using Kind = MemberCommand::Kind;
  const MemberCommand commands[] = {
      {Kind::kReport, 12, ""},
      {Kind::kBegin, 0, ""},
      {Kind::kPromote, UINT64_MAX, ""},
      {Kind::kHandOver, 0, ""},
      {Kind::kRefuse, 0, "the state of pserver 0 is lost [TD4030]; hint: do it"}};
  for (const MemberCommand& c : commands) {
    const StatusOr<MemberCommand> read = DecodeMemberCommand(Encode(c));
    ASSERT_TRUE(read.ok()) << Encode(c);
    EXPECT_EQ(read->kind, c.kind);
    EXPECT_EQ(read->number, c.number);
    EXPECT_EQ(read->text, c.text);
  }
  const MemberReport report{7, true, true, false, UINT64_MAX, 1000, 3, 99, 12};
  ASSERT_TRUE(DecodeMemberReport(Encode(report)).ok());
  EXPECT_EQ(*DecodeMemberReport(Encode(report)), report);
}

TEST(MemberMessagesTest, OtherTextIsRefused) {
  for (const char* text : {"", "report", "report x", "report 1 2", "promote", "promote -x",
                           "begin 1", "state 1 1 1 1 1 1 1 1 1", "what"}) {
    EXPECT_FALSE(DecodeMemberCommand(text).ok()) << text;
  }
  for (const char* text : {"", "state", "state 1 1 1 1 1 1 1 1", "state 1 2 1 1 1 1 1 1 1",
                           "state 1 1 1 1 1 1 1 1 1 1", "state 1 1 1 1 1 1 1 1 x", "begin"}) {
    EXPECT_FALSE(DecodeMemberReport(text).ok()) << text;
  }
}

TEST(MemberMessagesTest, TheSocketKeepsTheEndsOfMessages) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Fd one(ends[0]), other(ends[1]);
  EXPECT_EQ(ReceiveMemberMessage(other.get()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(SendMemberMessage(one.get(), "report 1").ok());
  ASSERT_TRUE(SendMemberMessage(one.get(), "begin").ok());
  EXPECT_EQ(*ReceiveMemberMessage(other.get()), "report 1");
  EXPECT_EQ(*ReceiveMemberMessage(other.get()), "begin");
  const std::string longer(kMemberMessageMax + 1, 'x');
  ASSERT_EQ(send(one.get(), longer.data(), longer.size(), 0), static_cast<ssize_t>(longer.size()));
  EXPECT_EQ(ReceiveMemberMessage(other.get()).status().code(), StatusCode::kInvalidArgument);
  one.Reset();
  EXPECT_EQ(ReceiveMemberMessage(other.get()).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(SendMemberMessage(other.get(), "begin").code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem
