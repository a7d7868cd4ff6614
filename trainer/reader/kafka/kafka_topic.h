// A topic of Kafka, read by partition and offset without a consumer group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

// Types of librdkafka, which only kafka_topic.cc includes.
struct rd_kafka_s;
struct rd_kafka_topic_s;
struct rd_kafka_message_s;
struct rd_kafka_conf_s;

namespace tandem::reader {

// A message of a partition. Owns its text.
class KafkaMessage {
 public:
  explicit KafkaMessage(rd_kafka_message_s* message) : message_(message) {}

  std::string_view text() const;  // without a line end after it; "": the message has no value
  uint64_t offset() const;
  int64_t time_ms() const;  // Unix time that the message carries, in milliseconds; 0: none

 private:
  struct Destroy {
    void operator()(rd_kafka_message_s* message) const;
  };
  std::unique_ptr<rd_kafka_message_s, Destroy> message_;
};

struct KafkaTopicOptions {
  std::string brokers;     // "HOST:PORT,HOST:PORT"
  std::string topic;       // name of the topic
  std::string properties;  // path of a file with settings of librdkafka; "": no file
};

// A connection to the brokers of a topic. The threads of librdkafka fetch messages of the started
// partitions ahead, up to a bound. Not thread-safe.
class KafkaTopic {
 public:
  struct Offsets {
    uint64_t begin = 0, end = 0;  // the broker has [begin, end)
  };
  struct Layout {
    int32_t partitions = 0;               // number of partitions
    std::vector<int32_t> without_leader;  // partitions that no broker serves now
  };
  // Results of Take.
  struct Taken {
    std::vector<KafkaMessage> messages;
    // Offset after all messages that the partition has; nullopt: unknown. Control records of
    // transactions and aborted messages have offsets without messages.
    std::optional<uint64_t> end;
  };

  // Reads the settings. Connects in the background. NOT_FOUND: there is no file of settings.
  // INVALID_ARGUMENT: a setting is unknown or wrong (the message names its line).
  static StatusOr<std::unique_ptr<KafkaTopic>> Open(const KafkaTopicOptions& options);
  ~KafkaTopic();
  KafkaTopic(const KafkaTopic&) = delete;
  KafkaTopic& operator=(const KafkaTopic&) = delete;

  // Asks a broker for the partitions. Blocks for up to one second. UNAVAILABLE: no broker replied
  // in this time (the message has the last error of the connection, such as a wrong password).
  // NOT_FOUND: the brokers have no such topic. PERMISSION_DENIED: the user of the settings may not
  // read the topic.
  StatusOr<Layout> Describe();
  // Asks a broker for the offsets of a partition. Blocks for up to two seconds, and fails as
  // Describe.
  StatusOr<Offsets> OffsetsOf(int32_t partition);
  // Fetches the messages of a partition from `offset` on. Discards messages that were fetched.
  Status Start(int32_t partition, uint64_t offset);
  // Appends up to `count` fetched messages of a started partition. Does not block. OUT_OF_RANGE:
  // the broker does not have the next offset. PERMISSION_DENIED: as Describe. DATA_LOSS: librdkafka
  // cannot read a batch, and would continue after it.
  Status Take(int32_t partition, size_t count, Taken* taken);

 private:
  // The last error of a connection. librdkafka writes it when the owner polls.
  using LastError = std::unique_ptr<std::string>;

  KafkaTopic(rd_kafka_s* client, rd_kafka_topic_s* topic, LastError last_error,
             const KafkaTopicOptions& options)
      : options_(options), last_error_(std::move(last_error)), client_(client), topic_(topic) {}
  static Status Configure(rd_kafka_conf_s* conf, const KafkaTopicOptions& options);
  Status ErrorOf(int error, std::string_view what) const;
  // Returns the first offset of a partition, or the offset after the last one.
  StatusOr<uint64_t> OffsetAt(int32_t partition, int64_t of);
  // Returns the status of a message that has an error instead of a text.
  Status OnError(const rd_kafka_message_s& message, int32_t partition, Taken* taken) const;

  const KafkaTopicOptions options_;
  const LastError last_error_;
  rd_kafka_s* const client_;       // owned
  rd_kafka_topic_s* const topic_;  // owned
  std::vector<bool> started_;      // by partition
};

}  // namespace tandem::reader
