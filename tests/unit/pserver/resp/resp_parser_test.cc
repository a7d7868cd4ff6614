// Tests the parser of commands: complete, split and malformed commands, and the limits.
#include "pserver/resp/resp_parser.h"

#include <string>

#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kBytesMax = 1 << 20, kArgumentsMax = 1000;

std::vector<std::string> Texts(const RespArguments& arguments) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < arguments.size(); ++i) texts.emplace_back(arguments[i]);
  return texts;
}

// Returns the error of a command; "": it is complete, "incomplete": bytes are missing.
std::string ErrorOf(std::string_view command, size_t bytes_max = kBytesMax,
                    size_t arguments_max = kArgumentsMax) {
  RespParser parser(bytes_max, arguments_max);
  const StatusOr<bool> complete = parser.Parse(command);
  if (!complete.ok()) return std::string(complete.status().message());
  return *complete ? "" : "incomplete";
}

TEST(RespParserTest, Commands) {
  const std::string buffer = "*2\r\n$3\r\nGET\r\n$5\r\nemb:7\r\n*1\r\n$4\r\nPING\r\n";
  // The bytes of an argument may be line ends and zero.
  const std::string third("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\0\r\r\n", 24);
  RespParser parser(kBytesMax, kArgumentsMax);
  std::string_view rest = buffer;
  ASSERT_TRUE(*parser.Parse(rest));
  EXPECT_THAT(Texts(parser.arguments(rest)), ElementsAre("GET", "emb:7"));
  rest.remove_prefix(parser.bytes());
  parser.Reset();
  ASSERT_TRUE(*parser.Parse(rest));
  EXPECT_THAT(Texts(parser.arguments(rest)), ElementsAre("PING"));
  parser.Reset();
  ASSERT_TRUE(*parser.Parse(third));
  EXPECT_EQ(parser.bytes(), third.size());
  EXPECT_EQ(Texts(parser.arguments(third))[1], std::string("\r\n\0\r", 4));
  parser.Reset();
  ASSERT_TRUE(*parser.Parse("*0\r\n"));
  EXPECT_EQ(parser.arguments("*0\r\n").size(), 0u);
  parser.Reset();
  ASSERT_TRUE(*parser.Parse("*1\r\n$0\r\n\r\n"));
  EXPECT_EQ(parser.arguments("*1\r\n$0\r\n\r\n")[0], "");
  parser.Reset();
  EXPECT_FALSE(*parser.Parse("\r"));
  ASSERT_TRUE(*parser.Parse("\r\n*1"));
  EXPECT_EQ(parser.bytes(), 2u);
  EXPECT_EQ(parser.arguments("\r\n*1").size(), 0u);
}

TEST(RespParserTest, ACommandMayArriveInPartsOfAnySize) {
  const std::string command = "*3\r\n$4\r\nHGET\r\n$3\r\nemb\r\n$12\r\n123456789012\r\n";
  for (size_t step = 1; step < command.size(); ++step) {
    RespParser parser(kBytesMax, kArgumentsMax);
    for (size_t end = step; end < command.size(); end += step) {
      const StatusOr<bool> complete = parser.Parse(std::string_view(command).substr(0, end));
      ASSERT_TRUE(complete.ok()) << complete.status();
      ASSERT_FALSE(*complete) << end;
      ASSERT_LE(parser.bytes(), end);
    }
    // The bytes of the next command do not matter.
    const std::string buffer = command + "*1\r\n$";
    ASSERT_TRUE(*parser.Parse(buffer));
    EXPECT_EQ(parser.bytes(), command.size());
    EXPECT_THAT(Texts(parser.arguments(buffer)), ElementsAre("HGET", "emb", "123456789012"));
  }
}

TEST(RespParserTest, MalformedCommands) {
  EXPECT_THAT(ErrorOf("PING\r\n"), HasSubstr("'P' at the begin of a command, expected '*'"));
  EXPECT_THAT(ErrorOf("\n"), HasSubstr("byte 0x0a at the begin of a command"));
  EXPECT_THAT(ErrorOf("*1\r\n+PING\r\n"), HasSubstr("'+' at the begin of an argument, expected"));
  EXPECT_THAT(ErrorOf("\rx"), HasSubstr("byte 0x0d at the begin of a command"));
  for (const char* number :
       {"*\r\n", "*-1\r\n", "*1x\r\n", "*1\rx", "*1\n", "* 1\r\n", "*11111111111\r\n", "*+1\r\n"}) {
    EXPECT_THAT(ErrorOf(number), HasSubstr("the number after '*' is invalid")) << number;
  }
  for (const char* number : {"$\r\n", "$-1\r\n", "$1x\r\n", "$1\rx", "$99999999999\r\n"}) {
    EXPECT_THAT(ErrorOf("*1\r\n" + std::string(number)),
                HasSubstr("the number after '$' is invalid"))
        << number;
  }
  EXPECT_THAT(ErrorOf("*2\r\n$4\r\nECHO\r\n$2\r\nabcd"),
              HasSubstr("argument 1 does not end with CR LF after its 2 bytes"));
}

TEST(RespParserTest, Limits) {
  const std::string ping = "*1\r\n$4\r\nPING\r\n";
  EXPECT_EQ(ErrorOf(ping, ping.size(), 1), "");
  EXPECT_THAT(ErrorOf(ping, ping.size() - 1), HasSubstr("(command_bytes_max)"));
  EXPECT_THAT(ErrorOf("*3\r\n", kBytesMax, 2),
              HasSubstr("the command has 3 arguments, expected at most 2 (arguments_max)"));
  // The size is checked before the bytes arrive, so they need no memory.
  EXPECT_THAT(ErrorOf("*1\r\n$9999999999\r\n"), HasSubstr("(command_bytes_max)"));
  EXPECT_THAT(ErrorOf("*9999999999\r\n"), HasSubstr("(arguments_max)"));
  RespParser parser(4, 1);
  EXPECT_FALSE(parser.Parse(ping).ok());
  parser.Reset();
  parser.SetLimits(kBytesMax, kArgumentsMax);
  EXPECT_TRUE(*parser.Parse(ping));
}

}  // namespace
}  // namespace tandem::pserver
