#include "common/tensor/staging_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <optional>
#include <vector>

namespace tandem {
namespace {

// A stream that executes its copies only when a caller waits for them.
class LazyStream {
 public:
  StagingRing::Driver Driver() {
    return {.copy = [this](void* to, const void* from, size_t bytes) -> Status {
              if (fails_) return Unavailable("the device is gone");
              copies_.push_back({to, from, bytes});
              ++started_;
              return OkStatus();
            },
            .mark =
                [this](size_t slot) {
                  marks_[slot] = started_;
                  return OkStatus();
                },
            .wait =
                [this](size_t slot) {
                  ++waits_;
                  RunUntil(*marks_[slot]);
                  return OkStatus();
                }};
  }
  void RunUntil(int64_t count) {
    for (; ran_ < count; ++ran_) {
      const auto [to, from, bytes] = copies_.front();
      std::memcpy(to, from, bytes);
      copies_.pop_front();
    }
  }
  void RunAll() { RunUntil(started_); }

  bool fails_ = false;
  int waits_ = 0;
  int64_t started_ = 0, ran_ = 0;

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  std::deque<Copy> copies_;
  std::vector<std::optional<int64_t>> marks_ =
      std::vector<std::optional<int64_t>>(StagingRing::kSlots);
};

constexpr int kSlots = static_cast<int>(StagingRing::kSlots);

class StagingRingTest : public ::testing::Test {
 protected:
  // Copies `value` to `to`, and overwrites the source immediately afterwards.
  Status Put(int* to, int value) {
    const Status status = ring_.Copy(to, &value, sizeof(value));
    value = -1;
    return status;
  }

  LazyStream stream_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(StagingRing::kBytes);
  StagingRing ring_{memory_.data(), stream_.Driver()};
};

// Each copied value must arrive, even if the device executes the copies late. A copy waits only if
// the ring is full.
TEST_F(StagingRingTest, NoSlotIsWrittenBeforeItIsRead) {
  std::vector<int> there(5 * StagingRing::kSlots);
  int value = 0;
  for (int& to : there) {
    EXPECT_EQ(stream_.waits_ > 0, value > kSlots) << value;
    ASSERT_TRUE(Put(&to, value++).ok());
  }
  EXPECT_EQ(stream_.waits_, 4 * kSlots);
  EXPECT_EQ(stream_.ran_, 4 * kSlots) << "no more than was needed";
  stream_.RunAll();
  for (int i = 0; i < static_cast<int>(there.size()); ++i) EXPECT_EQ(there[i], i);
}

TEST_F(StagingRingTest, WholeSlots) {
  std::vector<std::byte> from(StagingRing::kSlotBytes), to(from.size() * StagingRing::kSlots);
  for (int i = 0; i < kSlots; ++i) {
    std::fill(from.begin(), from.end(), static_cast<std::byte>(i + 1));
    ASSERT_TRUE(ring_.Copy(to.data() + i * from.size(), from.data(), from.size()).ok());
  }
  stream_.RunAll();
  for (size_t i = 0; i < to.size(); ++i) {
    ASSERT_EQ(to[i], static_cast<std::byte>(i / StagingRing::kSlotBytes + 1)) << i;
  }
  EXPECT_TRUE(StagingRing::Takes(StagingRing::kSlotBytes));
  EXPECT_FALSE(StagingRing::Takes(StagingRing::kSlotBytes + 1));
}

TEST_F(StagingRingTest, ACopyThatFailsTakesNoSlot) {
  int there = 0;
  stream_.fails_ = true;
  for (int i = 0; i < 3 * kSlots; ++i) {
    EXPECT_EQ(Put(&there, i).code(), StatusCode::kUnavailable);
  }
  stream_.fails_ = false;
  ASSERT_TRUE(Put(&there, 7).ok());
  EXPECT_EQ(stream_.waits_, 0);
  stream_.RunAll();
  EXPECT_EQ(there, 7);
}

}  // namespace
}  // namespace tandem
