#include "common/rpc/http2_watch.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace tandem::rpc {
namespace {

const char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const Time kNow(std::chrono::hours(1));

std::string Frame(char type, char flags, size_t length) {
  std::string frame = {static_cast<char>(length >> 16),
                       static_cast<char>(length >> 8),
                       static_cast<char>(length),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       1};
  return frame + std::string(length, 'x');
}

std::unique_ptr<StrangerShare> NewStranger() {
  return std::make_unique<StrangerShare>(std::make_shared<StrangerBudget>(StrangerLimits()));
}

bool Passes(const std::string& frames, bool stranger = false) {
  const auto one = NewStranger(), other = NewStranger();
  Http2Watch watch;
  const bool whole = watch.Feed(kPreface + frames, stranger ? one.get() : nullptr, kNow);
  Http2Watch slow;  // a second watch that gets the same bytes one by one
  bool pieces = true;
  for (const char c : kPreface + frames) {
    pieces = slow.Feed({&c, 1}, stranger ? other.get() : nullptr, kNow);
  }
  EXPECT_EQ(whole, pieces);
  EXPECT_EQ(whole, *watch.why() == '\0');
  return whole;
}

std::string Repeat(const std::string& frames, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += frames;
  return all;
}

TEST(Http2WatchTest, AClientOfOursPasses) {
  const std::string call = Frame(1, 4, 200) + Frame(0, 0, 100'000) + Frame(0, 1, 5);
  EXPECT_TRUE(Passes(Frame(4, 0, 18) + Frame(4, 1, 0) + Repeat(call, 50)));
  EXPECT_TRUE(Passes(Repeat(Frame(1, 4, 20) + Frame(0, 1, 0), 5'000)));
  EXPECT_TRUE(Passes(Repeat(Frame(8, 0, 4), 100'000))) << "a long pull";
  EXPECT_TRUE(Passes(Repeat(Frame(3, 0, 4), 200))) << "cancels all of its calls";
}

TEST(Http2WatchTest, HeaderBlocksAreOneFrameOfBoundedLength) {
  EXPECT_FALSE(Passes(Frame(1, 0, 10)));
  EXPECT_FALSE(Passes(Frame(9, 4, 10)));
  EXPECT_TRUE(Passes(Frame(1, 4, 16'384)));
  EXPECT_FALSE(Passes(Frame(1, 4, 16'385)));
  EXPECT_FALSE(Passes(Frame(4, 0, 1 << 20)));
}

TEST(Http2WatchTest, FramesThatCostAndCarryNothingAreFew) {
  for (const char type : {2, 3, 4, 6, 7, 77}) {
    EXPECT_TRUE(Passes(Repeat(Frame(type, 0, 8), 200))) << int{type};
    EXPECT_FALSE(Passes(Repeat(Frame(type, 0, 8), 300))) << int{type};
  }
  EXPECT_FALSE(Passes(Repeat(Frame(0, 0, 0), 300)));
}

TEST(Http2WatchTest, TheRateCounts) {
  Http2Watch watch;
  ASSERT_TRUE(watch.Feed(kPreface + Repeat(Frame(3, 0, 4), 256), nullptr, kNow));
  const std::string one = Frame(3, 0, 4);
  EXPECT_TRUE(watch.Feed(Repeat(one, 32), nullptr, kNow + std::chrono::seconds(1)));
  EXPECT_FALSE(watch.Feed(one, nullptr, kNow + std::chrono::seconds(1)));
  EXPECT_FALSE(watch.Feed(Frame(0, 1, 9), nullptr, kNow + std::chrono::hours(1))) << "it is over";
}

TEST(Http2WatchTest, StrangersBeginFewCalls) {
  const std::string call = Frame(1, 5, 50);
  EXPECT_TRUE(Passes(Repeat(call, 64), true));
  EXPECT_FALSE(Passes(Repeat(call, 65), true));
  EXPECT_TRUE(Passes(Repeat(call, 1000)));
  Http2Watch other;
  EXPECT_FALSE(other.Feed("GET / HTTP/1.1\r\n\r\n", NewStranger().get(), kNow));
}

TEST(Http2WatchTest, StrangersSendFewBytes) {
  const std::string piece = Frame(0, 0, 16'375);  // 16 KiB together with its header
  EXPECT_TRUE(Passes(Frame(1, 4, 50) + Repeat(piece, 63), true));
  EXPECT_FALSE(Passes(Frame(1, 4, 50) + Repeat(piece, 64), true));
  EXPECT_TRUE(Passes(Frame(1, 4, 50) + Repeat(piece, 200)));
}

}  // namespace
}  // namespace tandem::rpc
