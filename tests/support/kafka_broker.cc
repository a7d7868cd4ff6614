#include "tests/support/kafka_broker.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "common/base/check.h"

namespace tandem {

KafkaBroker::KafkaBroker(int brokers) {
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  const auto set = [conf](const char* name, const std::string& value) {
    char why[512];
    CHECK_EQ(rd_kafka_conf_set(conf, name, value.c_str(), why, sizeof why), RD_KAFKA_CONF_OK)
        << why;
  };
  set("test.mock.num.brokers", std::to_string(brokers));
  set("linger.ms", "0");
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

void KafkaBroker::SetDown(int broker, bool down) {
  CHECK_EQ(down ? rd_kafka_mock_broker_set_down(cluster_, broker)
                : rd_kafka_mock_broker_set_up(cluster_, broker),
           RD_KAFKA_RESP_ERR_NO_ERROR);
}

void KafkaBroker::FailRequests(int16_t api_key, int count, int error) {
  const std::vector<rd_kafka_resp_err_t> errors(static_cast<size_t>(count),
                                                static_cast<rd_kafka_resp_err_t>(error));
  rd_kafka_mock_push_request_errors_array(cluster_, api_key, errors.size(), errors.data());
}

void KafkaBroker::SetTopicError(const std::string& topic, int error) {
  rd_kafka_mock_topic_set_error(cluster_, topic.c_str(), static_cast<rd_kafka_resp_err_t>(error));
}

}  // namespace tandem
