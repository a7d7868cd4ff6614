// Tests the offsets of a partition while requests of librdkafka fail (its mock broker).
#include "trainer/reader/kafka/kafka_topic.h"

#include <sched.h>

#include <atomic>
#include <thread>

#include "common/base/check.h"
#include "gmock/gmock.h"
#include "tests/support/kafka_broker.h"

namespace tandem::reader {
namespace {

constexpr int kListOffsets = 2;  // an API key of Kafka
constexpr int kNotLeader = 6;

// Lets the calling thread run only when another thread, which is always busy, leaves it the
// processor. So several replies of the brokers may wait for the calling thread at once.
class SlowThread {
 public:
  SlowThread() {
    CHECK_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    busy_ = std::thread([this] {
      while (!ended_) {
      }
    });
  }
  ~SlowThread() {
    ended_ = true;
    busy_.join();
    CHECK_EQ(sched_setaffinity(0, sizeof before_, &before_), 0);
  }

 private:
  cpu_set_t before_{};
  std::atomic<bool> ended_ = false;
  std::thread busy_;
};

TEST(KafkaTopicTest, OffsetsAreThoseOfTheBrokerOrAnError) {
  KafkaBroker broker;
  broker.CreateTopic("clicks", 2);
  broker.Produce("clicks", 1, std::vector<std::string>(20, "x"));
  auto topic = KafkaTopic::Open({broker.address(), "clicks", ""});
  ASSERT_TRUE(topic.ok()) << topic.status();
  const auto first = (*topic)->OffsetsOf(1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->begin, 0);
  EXPECT_EQ(first->end, 20);
  const auto empty = (*topic)->OffsetsOf(0);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->begin, 0);
  EXPECT_EQ(empty->end, 0);
  const SlowThread slow;
  int errors = 0, replies = 0;
  for (int i = 0; i < 150; ++i) {
    // No request fails, or the first one, or the second one.
    if (i % 3 != 0) broker.FailRequests(kListOffsets, 1, kNotLeader, i % 3 - 1);
    const auto offsets = (*topic)->OffsetsOf(1);
    ++(offsets.ok() ? replies : errors);
    if (!offsets.ok()) continue;
    EXPECT_EQ(offsets->begin, 0) << i;
    EXPECT_EQ(offsets->end, 20) << i;
  }
  EXPECT_GT(errors, 0);
  EXPECT_GT(replies, 0);
}

}  // namespace
}  // namespace tandem::reader
