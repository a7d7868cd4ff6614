// The messages of the partitions that one rank reads, with waits for brokers and for messages.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/reader/kafka/kafka_topic.h"
#include "trainer/reader/stream/wait_switch.h"

namespace tandem::reader {

struct KafkaFeedOptions {
  KafkaTopicOptions topic;
  Duration wait_log = std::chrono::seconds(30);      // time between two log lines of a wait
  Duration broker_wait = std::chrono::seconds(300);  // time without a broker after which reads fail
};

// Keeps messages that were fetched, by partition, up to a bound. Every wait ends with CANCELLED if
// the switch ends waits. If no broker replies, waits until a broker is back; UNAVAILABLE: no broker
// replied within broker_wait. Not thread-safe.
class KafkaFeed {
 public:
  using IsRecord = std::function<bool(std::string_view text)>;
  // Fetched messages of one partition.
  struct Fetched {
    std::deque<KafkaMessage> records;
    uint64_t end = 0;  // offset after the last fetched message, also if the message is no record
  };

  // `is_record`: false for messages that have no record, such as an empty text. `waits` must
  // outlive this object.
  static StatusOr<std::unique_ptr<KafkaFeed>> Open(const KafkaFeedOptions& options,
                                                   IsRecord is_record, WaitSwitch* waits);

  // Returns the number of partitions of the topic. Blocks until a broker has said it once.
  StatusOr<int32_t> CountPartitions();
  // Returns the offsets that the broker has. Blocks until a broker replies.
  StatusOr<KafkaTopic::Offsets> OffsetsOf(int32_t partition);
  // Makes `next` the next offsets of the partitions. Discards all messages that were fetched.
  Status Seek(const std::map<int32_t, uint64_t>& next);
  // Returns the next record of a partition. Blocks until it exists. DATA_LOSS: the broker does not
  // have the next offset (the message names topic, partition and offsets).
  StatusOr<KafkaMessage> Next(int32_t partition);
  // Blocks until `count` records are fetched, the bound of their bytes is reached, or the topic has
  // new partitions. Errors: those of Next.
  Status Gather(uint64_t count);
  // Blocks for a moment, in a wait for what `missing` says.
  Status Idle(RecordWait* wait, const std::string& missing);

  const std::map<int32_t, Fetched>& fetched() const { return fetched_; }
  const Duration& wait_log() const { return options_.wait_log; }

 private:
  KafkaFeed(const KafkaFeedOptions& options, IsRecord is_record, WaitSwitch* waits)
      : options_(options), is_record_(std::move(is_record)), waits_(*waits) {}
  // Fetches without a wait. `count`: records of a partition that suffice.
  Status Fetch(int32_t partition, uint64_t count);
  Status WhyOutOfRange(int32_t partition, uint64_t next);
  // Asks for the number of partitions if the last reply is older than `age`.
  Status Probe(Duration age);
  Status OnReply(const Status& status);

  const KafkaFeedOptions options_;
  const IsRecord is_record_;
  WaitSwitch& waits_;
  std::unique_ptr<KafkaTopic> topic_;
  std::map<int32_t, Fetched> fetched_;
  uint64_t records_ = 0, bytes_ = 0;  // sums over all fetched records
  int32_t partitions_ = 0;            // number of partitions; 0: unknown
  std::optional<Time> probed_;        // time of the last reply or attempt
  std::optional<RecordWait> down_;    // wait for a broker; nullopt: the last call had a reply
};

}  // namespace tandem::reader
