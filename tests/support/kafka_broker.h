// librdkafka's mock broker: brokers of Kafka in this process, with errors on request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct rd_kafka_s;
struct rd_kafka_mock_cluster_s;

namespace tandem {

// A cluster of mock brokers that listens on 127.0.0.1. A partition keeps up to 5 MiB of records and
// forgets the oldest ones. Not thread-safe.
class KafkaBroker {
 public:
  explicit KafkaBroker(int brokers = 1);
  ~KafkaBroker();
  KafkaBroker(const KafkaBroker&) = delete;
  KafkaBroker& operator=(const KafkaBroker&) = delete;

  const std::string& address() const { return address_; }  // "127.0.0.1:PORT,..."
  void CreateTopic(const std::string& topic, int partitions);
  // Adds records to a partition and waits until the broker has them. `time_ms`: their time; 0: now.
  void Produce(const std::string& topic, int partition, const std::vector<std::string>& records,
               int64_t time_ms = 0);
  // Adds a control record to a partition, as the end of a transaction does. `damaged`: adds a batch
  // with a wrong checksum instead.
  void ProduceMarker(const std::string& topic, int partition, bool damaged = false);
  // Makes a broker the leader of a partition. -1: the partition has no leader.
  void SetLeader(const std::string& topic, int partition, int broker);
  // Makes the broker close all connections and refuse new ones, or accept connections again.
  void SetDown(int broker, bool down);
  // Makes `count` requests of a kind (Kafka's API key: 1 Fetch, 3 Metadata) fail with a Kafka
  // error, after the next `before` ones.
  void FailRequests(int16_t api_key, int count, int error, int before = 0);
  // Makes all requests about a topic fail with a Kafka error; 0: no longer.
  void SetTopicError(const std::string& topic, int error);

 private:
  rd_kafka_s* client_ = nullptr;                // producer, which owns the cluster
  rd_kafka_mock_cluster_s* cluster_ = nullptr;  // owned by client_
  std::string address_;
};

}  // namespace tandem
