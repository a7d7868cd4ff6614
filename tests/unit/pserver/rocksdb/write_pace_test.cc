#include "pserver/disk/checkpoint_throttle.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/storage/storage.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr Duration kNone{};

// A writer whose working time and number of pushes the test sets.
struct Writer {
  Writer() : pace({[this] { return pushes.load(); }, [this] { return Duration(worked.load()); }}) {}
  void Work(Duration time) { worked += time.count(); }

  std::atomic<uint64_t> pushes = 0;
  std::atomic<int64_t> worked = 0;
  CheckpointThrottle pace;
};

TEST(WritePaceTest, WorksAThirtiethOfItsTimeWhilePushesCome) {
  Writer w;
  const CheckpointThrottle::Wish wish(&w.pace, hours(1));
  CheckpointThrottle::File file(&w.pace);
  for (int piece = 1; piece <= 3; ++piece) {
    w.Work(milliseconds(1));
    ++w.pushes;
    const Time start = SteadyNow();
    file.Wrote();
    EXPECT_GE(SteadyNow() - start, milliseconds(29));
    EXPECT_EQ(file.rested(), piece * milliseconds(29));
  }
}

TEST(WritePaceTest, DoesNotRestWithoutPushes) {
  Writer w;
  w.pushes = 7;
  const CheckpointThrottle::Wish wish(&w.pace, hours(1));
  CheckpointThrottle::File file(&w.pace);
  w.Work(milliseconds(1));
  file.Wrote();
  EXPECT_EQ(file.rested(), kNone);
  ++w.pushes;
  w.Work(milliseconds(1));
  file.Wrote();
  EXPECT_EQ(file.rested(), milliseconds(29));
  w.Work(milliseconds(1));
  file.Wrote();  // no push has come since the last write
  EXPECT_EQ(file.rested(), milliseconds(29));
}

TEST(WritePaceTest, RestsNoLongerThanThereIsPatience) {
  Writer w;
  const CheckpointThrottle::Wish wish(&w.pace, milliseconds(25));
  CheckpointThrottle::File file(&w.pace);
  for (int piece = 0; piece < 3; ++piece) {
    w.Work(milliseconds(1));
    ++w.pushes;
    file.Wrote();
  }
  EXPECT_EQ(file.rested(), milliseconds(25));
}

TEST(WritePaceTest, DoesNotRestWhenNobodyIsKnownOrTwoWait) {
  Writer w;
  CheckpointThrottle::File file(&w.pace);
  const auto wrote = [&] {
    w.Work(hours(1));
    ++w.pushes;
    file.Wrote();
    return file.rested();
  };
  EXPECT_EQ(wrote(), kNone);
  {
    const CheckpointThrottle::Wish one(&w.pace, hours(1)), another(&w.pace, hours(1));
    EXPECT_EQ(wrote(), kNone);
  }
  const CheckpointThrottle::Wish hurry(&w.pace, kNone);
  EXPECT_EQ(wrote(), kNone);
}

TEST(WritePaceTest, ARestEndsWhenSomebodyElseWantsAnImage) {
  Writer w;
  const CheckpointThrottle::Wish wish(&w.pace, hours(100));
  std::atomic<bool> resting = false;
  std::thread writer([&] {
    CheckpointThrottle::File file(&w.pace);
    w.Work(hours(1));
    ++w.pushes;
    resting = true;
    file.Wrote();  // sleeps for 29 hours unless another Wish wakes it
  });
  while (!resting) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(5));  // usually long enough for the writer to be asleep
  const CheckpointThrottle::Wish another(&w.pace, hours(100));
  writer.join();
}

TEST(WritePaceTest, WithoutAPaceNobodyRests) {
  const CheckpointThrottle::Wish wish(nullptr, hours(1));
  CheckpointThrottle::File file(nullptr);
  file.Wrote();
  EXPECT_EQ(file.rested(), kNone);
}

class PacedSaveTest : public ShardFixture {};

TEST_F(PacedSaveTest, RestsAsLongAsItsCallerHasPatience) {
  std::string dir = testing::TempDir() + "/write_pace_XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  std::atomic<uint64_t> pushes = 0, pieces = 0;
  CheckpointThrottle pace({[&] { return ++pushes; }, [&] { return hours(++pieces); }});
  const auto storage = *OpenRocksdbStorage(dir, &pace);
  DurableShard::Options options;
  options.pace = &pace;
  DurableShard durable(std::move(options), storage.get(), clock_, backend_, device_, metrics_);
  constexpr int64_t kNumel = 3 << 19;  // 6 MiB, written in chunks of 2 MiB
  ShardConfig config = Config(1, UpdatePolicy::kASync);
  config.slices = {{"w", Shape{kNumel}, 0, kNumel}};
  Start(config, 3);
  ASSERT_TRUE(durable.shard().checkpoints().Restore(*shard_->checkpoints().Take()).ok());
  const Time start = SteadyNow();
  ASSERT_TRUE(durable.Save(false, 0, milliseconds(40)).ok());
  EXPECT_GE(SteadyNow() - start, milliseconds(40));
  EXPECT_GE(pieces, 4u);                // at least one pause for the start and for each chunk
  ASSERT_TRUE(durable.Save().ok());     // ends at once: each pause would last 29 hours
  ASSERT_TRUE(durable.Restore().ok());  // ends at once, too
  const StatusOr<std::optional<ShardSnapshot>> read = storage->Read();
  ASSERT_TRUE(read.ok() && *read) << read.status();
  const auto* const values = reinterpret_cast<const float*>((*read)->slices[0].param.get());
  EXPECT_EQ(std::count(values, values + kNumel, 3.0f), kNumel);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace tandem::pserver
