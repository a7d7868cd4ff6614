#include "tests/support/kafka_broker.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"

namespace tandem {
namespace {

// Returns a number in the order of bytes of Kafka's protocol.
template <typename Number>
std::string Big(Number number) {
  std::string text;
  for (size_t i = sizeof number; i > 0; --i) {
    text += static_cast<char>(static_cast<uint64_t>(number) >> (8 * (i - 1)));
  }
  return text;
}

}  // namespace

KafkaBroker::KafkaBroker(int brokers) {
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  const auto set = [conf](const char* name, const std::string& value) {
    char why[512];
    CHECK_EQ(rd_kafka_conf_set(conf, name, value.c_str(), why, sizeof why), RD_KAFKA_CONF_OK)
        << why;
  };
  set("test.mock.num.brokers", std::to_string(brokers));
  set("linger.ms", "0");
  set("message.max.bytes", "100000000");
  set("reconnect.backoff.max.ms", "500");
  set("socket.timeout.ms", "2000");  // a connection made to a broker that is down
  rd_kafka_conf_set_log_cb(conf, nullptr);
  char why[512];
  client_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
  CHECK(client_ != nullptr) << why;
  cluster_ = rd_kafka_handle_mock_cluster(client_);
  CHECK(cluster_ != nullptr);
  address_ = rd_kafka_mock_cluster_bootstraps(cluster_);
}

KafkaBroker::~KafkaBroker() { rd_kafka_destroy(client_); }

void KafkaBroker::CreateTopic(const std::string& topic, int partitions) {
  CHECK_EQ(rd_kafka_mock_topic_create(cluster_, topic.c_str(), partitions, 1), 0);
}

void KafkaBroker::Produce(const std::string& topic, int partition,
                          const std::vector<std::string>& records, int64_t time_ms) {
  for (const std::string& record : records) {
    const rd_kafka_resp_err_t error =
        rd_kafka_producev(client_, RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_PARTITION(partition),
                          RD_KAFKA_V_VALUE(const_cast<char*>(record.data()), record.size()),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK),
                          RD_KAFKA_V_TIMESTAMP(time_ms), RD_KAFKA_V_END);
    CHECK_EQ(error, RD_KAFKA_RESP_ERR_NO_ERROR) << rd_kafka_err2str(error);
  }
  CHECK_EQ(rd_kafka_flush(client_, 60'000), RD_KAFKA_RESP_ERR_NO_ERROR);
}

// librdkafka's producer writes no control records, so this is a request in Kafka's protocol.
void KafkaBroker::ProduceMarker(const std::string& topic, int partition, bool damaged) {
  std::string record;
  record += std::string("\0\0\0", 3);                              // attributes, time, offset
  record += '\x08' + std::string("\0\0\0\1", 4);                   // key: version 0, commit
  record += '\x0c' + std::string(6, '\0') + std::string(1, '\0');  // value, no headers
  record.insert(0, 1, static_cast<char>(2 * record.size()));       // a zigzag number
  const int16_t attributes = damaged ? 0 : 0x30;                   // transactional, control
  const std::string body = Big<int16_t>(attributes) + Big<int32_t>(0) + Big<int64_t>(1) +
                           Big<int64_t>(1) + Big<int64_t>(7) + Big<int16_t>(0) + Big<int32_t>(-1) +
                           Big<int32_t>(1) + record;
  const std::string batch = Big<int32_t>(0) + '\2' + Big<int32_t>(12345) + body;
  const std::string records =
      Big<int64_t>(0) + Big<int32_t>(static_cast<int32_t>(batch.size())) + batch;
  const std::string request =
      Big<int16_t>(0) + Big<int16_t>(7) + Big<int32_t>(1) + Big<int16_t>(-1) +  // Produce v7
      Big<int16_t>(-1) + Big<int16_t>(-1) + Big<int32_t>(5000) + Big<int32_t>(1) +
      Big<int16_t>(static_cast<int16_t>(topic.size())) + topic + Big<int32_t>(1) +
      Big<int32_t>(partition) + Big<int32_t>(static_cast<int32_t>(records.size())) + records;
  const std::string text = Big<int32_t>(static_cast<int32_t>(request.size())) + request;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address_.substr(address_.find(':') + 1))));
  CHECK_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  CHECK_EQ(send(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  // The reply has the error after: size, number, topics, name, partitions, partition.
  std::string reply(4 + 4 + 4 + 2 + topic.size() + 4 + 4 + 2, '\0');
  CHECK_EQ(recv(fd, reply.data(), reply.size(), MSG_WAITALL), static_cast<ssize_t>(reply.size()));
  CHECK_EQ(reply.substr(reply.size() - 2), std::string(2, '\0'));
  close(fd);
}

void KafkaBroker::SetLeader(const std::string& topic, int partition, int broker) {
  CHECK_EQ(rd_kafka_mock_partition_set_leader(cluster_, topic.c_str(), partition, broker),
           RD_KAFKA_RESP_ERR_NO_ERROR);
}

void KafkaBroker::SetDown(int broker, bool down) {
  CHECK_EQ(down ? rd_kafka_mock_broker_set_down(cluster_, broker)
                : rd_kafka_mock_broker_set_up(cluster_, broker),
           RD_KAFKA_RESP_ERR_NO_ERROR);
}

void KafkaBroker::FailRequests(int16_t api_key, int count, int error, int before) {
  std::vector<rd_kafka_resp_err_t> errors(static_cast<size_t>(before), RD_KAFKA_RESP_ERR_NO_ERROR);
  errors.insert(errors.end(), static_cast<size_t>(count), static_cast<rd_kafka_resp_err_t>(error));
  rd_kafka_mock_push_request_errors_array(cluster_, api_key, errors.size(), errors.data());
}

void KafkaBroker::SetTopicError(const std::string& topic, int error) {
  rd_kafka_mock_topic_set_error(cluster_, topic.c_str(), static_cast<rd_kafka_resp_err_t>(error));
}

}  // namespace tandem
