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
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/reader/input/wait_switch.h"
#include "trainer/reader/kafka/kafka_topic.h"

namespace tandem::reader {

struct KafkaFeedOptions {
  KafkaTopicOptions topic;
  Duration wait_log = std::chrono::seconds(30);      // time between two log lines of a wait
  Duration broker_wait = std::chrono::seconds(300);  // time without a broker after which reads fail
  uint64_t bytes_max = uint64_t{32} << 20;  // bytes of fetched records, over all partitions
};

// Keeps messages that were fetched, by partition, up to a bound. Each partition has an equal share
// of the bound. Every wait ends with CANCELLED if the switch ends waits. If no broker replies, or a
// partition has no leader, waits until a broker is back; UNAVAILABLE: no broker served the topic
// within broker_wait. Not thread-safe.
class KafkaFeed {
 public:
  using IsRecord = std::function<bool(std::string_view text)>;
  // Offsets that the brokers have removed before they were fetched.
  struct Gap {
    uint64_t begin = 0, end = 0;  // offsets [begin, end)
  };
  // Fetched messages of one partition.
  struct Fetched {
    std::deque<KafkaMessage> records;
    uint64_t bytes = 0;  // sum over `records`
    // Offset after the last fetched one, also if offsets before it have no record.
    uint64_t end = 0;
    std::optional<Gap> gap;  // at `end`. Nothing more is fetched before PassGap.
    uint64_t removed = 0;    // end of the last gap that was passed; 0: none
  };

  // `is_record`: false for messages that have no record, such as an empty text. `waits` must
  // outlive this object.
  static StatusOr<std::unique_ptr<KafkaFeed>> Open(const KafkaFeedOptions& options,
                                                   IsRecord is_record, WaitSwitch* waits);

  // Returns the number of partitions of the topic. Blocks until a broker has said it once.
  // FAILED_PRECONDITION: the topic had fewer than `known` partitions for broker_wait.
  StatusOr<int32_t> CountPartitions(int32_t known);
  // Returns the offsets that the broker has. Blocks until a broker replies.
  StatusOr<KafkaTopic::Offsets> OffsetsOf(int32_t partition);
  // Makes `next` the next offsets of the partitions. Discards all messages that were fetched.
  Status Seek(const std::map<int32_t, uint64_t>& next);
  // Returns the next record of a partition in the offsets [begin, end), and discards records before
  // them. Blocks until it exists. nullopt: there is a gap, or the offsets have no further record.
  // DATA_LOSS: the partition ended before `end` for broker_wait, or a message cannot be read.
  StatusOr<std::optional<KafkaMessage>> Next(int32_t partition, uint64_t begin, uint64_t end);
  // Passes the part of a partition's gap that is below offset `end`, if there is one. The rest
  // stays a gap.
  void PassGap(int32_t partition, uint64_t end);
  // Passes gaps up to offset `end`, and returns the number of records in [begin, end) after them.
  // Blocks until these records are fetched. Errors: those of Next.
  StatusOr<uint64_t> CountAfterGap(int32_t partition, uint64_t begin, uint64_t end);
  // Blocks until `count` records are fetched, the bound of their bytes is reached, a partition has
  // a gap, the topic has new partitions, or no record has come for a second and offsets were
  // fetched that `stored` lacks. Errors: those of Next.
  Status Gather(uint64_t count, const std::map<int32_t, uint64_t>& stored);
  // Blocks for a moment, in a wait for what `missing` says.
  Status Idle(RecordWait* wait, const std::string& missing);

  const std::map<int32_t, Fetched>& fetched() const { return fetched_; }

 private:
  KafkaFeed(const KafkaFeedOptions& options, IsRecord is_record, WaitSwitch* waits)
      : options_(options), is_record_(std::move(is_record)), waits_(*waits) {}
  Fetched& At(int32_t partition);
  // Fetches without a wait, up to the share of the partition. `count`: records that suffice.
  Status Fetch(int32_t partition, uint64_t count);
  Status FetchUpTo(int32_t partition, uint64_t count, uint64_t bytes_max);
  uint64_t share() const { return options_.bytes_max / fetched_.size(); }  // bytes of a partition
  void Add(KafkaTopic::Taken taken, Fetched* fetched);
  // Discards the records before offset `begin`.
  void Drop(Fetched* fetched, uint64_t begin);
  Status OnOutOfRange(int32_t partition, Fetched* fetched);
  // Waits for the offsets up to `end` of a partition that the brokers had before.
  Status AwaitOffset(RecordWait* wait, int32_t partition, uint64_t end);
  // Asks for the partitions if the last reply is older than `age`.
  Status Probe(Duration age);
  Status CheckLayout(const KafkaTopic::Layout& layout) const;
  Status OnReply(const Status& status);

  const KafkaFeedOptions options_;
  const IsRecord is_record_;
  WaitSwitch& waits_;
  std::unique_ptr<KafkaTopic> topic_;
  std::map<int32_t, Fetched> fetched_;
  uint64_t records_ = 0;            // number of all fetched records
  int32_t partitions_ = 0;          // number of partitions; 0: unknown
  int32_t known_ = 0;               // number of partitions that the topic had before
  std::optional<Time> probed_;      // time of the last reply or attempt
  std::optional<RecordWait> down_;  // wait for a broker; nullopt: the last call had a reply
};

}  // namespace tandem::reader
