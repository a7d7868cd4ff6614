// Tests a shard with slow or full storage.
#include <chrono>
#include <future>

#include "gmock/gmock.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

class ShardStorageTest : public ShardFixture {};

// The shard must reply to other calls while it writes the initial values. A deadlock makes the wait
// of 20 s fail.
TEST_F(ShardStorageTest, TheFirstValuesAreKeptWhileOthersAreAnswered) {
  LogInMemory log;
  Shard::Options options;
  options.log = &log;
  bool kept = false;
  const auto waiting = Pending();
  options.keep_first = [&](const ShardSnapshot& image) {
    EXPECT_EQ(image.slices.size(), 3u);
    const auto other = std::async(std::launch::async, [&] {
      EXPECT_EQ(shard_->Job(), "job");
      EXPECT_FALSE(shard_->Info().initialised);
      PullLater(0, 0, std::chrono::hours(1), waiting);
      EXPECT_EQ(waiting->status().message(), "pending");
      EXPECT_EQ(Push(Head(Rank(0), 1, 0), 1.0f).status().code(), StatusCode::kFailedPrecondition);
      const Status again = shard_->InitParams(Rank(0), 0, {}, {}).status();
      EXPECT_EQ(again.code(), StatusCode::kUnavailable) << again;
      EXPECT_NE(again.message().find("[TD4017]"), std::string_view::npos) << again;
      EXPECT_EQ(shard_->Configure(Rank(0), Config(1, UpdatePolicy::kASync))->initialised, false);
    });
    kept = other.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    CHECK(kept) << "somebody waits for the first checkpoint";
    return OkStatus();
  };
  Make(options);
  Start(Config(1, UpdatePolicy::kASync));
  EXPECT_TRUE(kept);
  EXPECT_TRUE(waiting->ok()) << "answered once the first values are kept";
  EXPECT_TRUE(shard_->Info().initialised);
  EXPECT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
}

// If the log is full, calls that would change the state fail before they change it.
TEST_F(ShardStorageTest, WithoutRoomWhoConfiguresOrPushesIsRefused) {
  struct FullLog final : WriteAheadLog {
    Status Ready(uint64_t bytes) override {
      return bytes <= room ? OkStatus() : ResourceExhausted("%d bytes do not fit", bytes);
    }
    void Append(LogEntry) override { ++entries; }
    void WhenLogged(Written done) override { done(OkStatus()); }
    uint64_t room = UINT64_MAX;
    int entries = 0;
  } log;
  Shard::Options options;
  options.log = &log;
  Make(options);
  Start(Config(1, UpdatePolicy::kASync));
  log.room = 47;  // room for one byte less than a push needs
  const int before = log.entries;
  EXPECT_EQ(Push(Head(Rank(0), 1, 0), 1.0f).status(), ResourceExhausted("48 bytes do not fit"));
  EXPECT_EQ(log.entries, before);
  log.room = 48;
  EXPECT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
}

TEST_F(ShardStorageTest, AServerWithoutACheckpointSaysHowItBegan) {
  Shard::Options options;
  options.found = "its data folder d had no checkpoint when it began";
  Make(options);
  const Status refused = shard_->Greet(Rank(0));
  EXPECT_EQ(
      refused.message(),
      "no trainer has configured this server yet; its data folder d had no checkpoint when it "
      "began [TD4005]; hint: start servers with --durability=logged or replayable, so that a "
      "restarted server keeps its state");
}

}  // namespace
}  // namespace tandem::pserver
