#include "trainer/reader/kafka/kafka_topic.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/require.h"
#include "common/os/files.h"

namespace tandem::reader {
namespace {

constexpr int kCallMs = 1000;
constexpr uint64_t kPropertiesBytesMax = 1 << 16;
constexpr size_t kTakeMax = 1024;  // messages of one call of librdkafka

// Settings on which the positions of the ranks depend. A properties file may not change them.
constexpr std::array<std::array<const char*, 2>, 4> kFixed = {{
    {"auto.offset.reset", "error"},
    {"enable.auto.commit", "false"},
    {"enable.partition.eof", "true"},
    {"isolation.level", "read_committed"},
}};
constexpr std::array<const char*, 5> kRefused = {"bootstrap.servers", "metadata.broker.list",
                                                 "group.id", "auto.commit.enable",
                                                 "enable.auto.offset.store"};
// A properties file may change these settings.
constexpr std::array<std::array<const char*, 2>, 3> kDefaults = {{
    {"queued.min.messages", "10000"},
    {"queued.max.messages.kbytes", "16384"},  // KiB of each partition
    {"reconnect.backoff.max.ms", "1000"},
}};

using Conf = std::unique_ptr<rd_kafka_conf_t, void (*)(rd_kafka_conf_t*)>;

Status Set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  char why[512];
  if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), why, sizeof why) == RD_KAFKA_CONF_OK) {
    return OkStatus();
  }
  return InvalidArgument("%s [TD2014]", why);
}

Status SetOfLine(rd_kafka_conf_t* conf, const std::string& line) {
  const std::string text(absl::StripAsciiWhitespace(line));
  if (text.empty() || text.starts_with("#")) return OkStatus();
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return InvalidArgument("the line is not \"NAME=VALUE\" [TD2014]");
  }
  const std::string name(absl::StripAsciiWhitespace(text.substr(0, equals)));
  const std::string value(absl::StripAsciiWhitespace(text.substr(equals + 1)));
  const bool fixed = std::ranges::any_of(kFixed, [&](const auto& own) { return name == own[0]; }) ||
                     std::ranges::any_of(kRefused, [&](const char* own) { return name == own; });
  if (fixed) {
    return InvalidArgument(
        "%s cannot be set, because Tandem sets it [TD2014]; hint: remove the line", name);
  }
  return Set(conf, name, value);
}

Status SetOfFile(rd_kafka_conf_t* conf, const std::string& path) {
  if (path.empty()) return OkStatus();
  const StatusOr<std::string> text = ReadSmallFile(path, kPropertiesBytesMax);
  if (!text.ok()) return Annotate(text.status(), "data.stream.kafka.properties");
  int number = 0;
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (const std::string& line : lines) {
    TD_RETURN_IF_ERROR(Annotate(SetOfLine(conf, line), absl::StrFormat("%s:%d", path, ++number)));
  }
  return OkStatus();
}

// Threads of librdkafka log here. A broker that does not reply causes a line for each attempt, so
// at most one line a second is written.
void Log(const rd_kafka_t*, int level, const char*, const char* text) {
  constexpr int kWarning = 4;  // a level of syslog
  static std::atomic<int64_t> last_ms{-1000};
  const int64_t now =
      std::chrono::duration_cast<std::chrono::milliseconds>(SteadyNow().time_since_epoch()).count();
  if (level > kWarning || now - last_ms.load() < 1000) return;
  last_ms = now;
  LOG(WARNING) << "Kafka: " << text;
}

// Owners that poll get the errors of the connections here, such as a refused password.
void OnConnectionError(rd_kafka_t* client, int error, const char* why, void* last_error) {
  *static_cast<std::string*>(last_error) =
      absl::StrFormat("%s: %s", rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(error)), why);
  Log(client, 0, "", why);
}

// librdkafka continues after messages with these errors, so their records would be lost.
constexpr std::array<rd_kafka_resp_err_t, 6> kUnreadable = {
    RD_KAFKA_RESP_ERR__BAD_MSG,         RD_KAFKA_RESP_ERR__BAD_COMPRESSION,
    RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED, RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE,
    RD_KAFKA_RESP_ERR__FATAL,           RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
};

}  // namespace

void KafkaMessage::Destroy::operator()(rd_kafka_message_s* message) const {
  rd_kafka_message_destroy(message);
}

std::string_view KafkaMessage::text() const {
  if (message_->payload == nullptr) return {};
  std::string_view text(static_cast<const char*>(message_->payload), message_->len);
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

uint64_t KafkaMessage::offset() const { return static_cast<uint64_t>(message_->offset); }

int64_t KafkaMessage::time_ms() const {
  rd_kafka_timestamp_type_t type{};
  return std::max<int64_t>(rd_kafka_message_timestamp(message_.get(), &type), 0);
}

Status KafkaTopic::Configure(rd_kafka_conf_t* conf, const KafkaTopicOptions& options) {
  rd_kafka_conf_set_log_cb(conf, Log);
  rd_kafka_conf_set_error_cb(conf, OnConnectionError);
  // Otherwise tokens of OAUTHBEARER need an owner that polls all the time.
  rd_kafka_conf_enable_sasl_queue(conf, 1);
  for (const auto& [name, value] : kDefaults) TD_RETURN_IF_ERROR(Set(conf, name, value));
  TD_RETURN_IF_ERROR(SetOfFile(conf, options.properties));
  for (const auto& [name, value] : kFixed) TD_RETURN_IF_ERROR(Set(conf, name, value));
  return Set(conf, "bootstrap.servers", options.brokers);
}

StatusOr<std::unique_ptr<KafkaTopic>> KafkaTopic::Open(const KafkaTopicOptions& options) {
  Conf conf(rd_kafka_conf_new(), rd_kafka_conf_destroy);
  TD_RETURN_IF_ERROR(Configure(conf.get(), options));
  auto last_error = std::make_unique<std::string>();
  rd_kafka_conf_set_opaque(conf.get(), last_error.get());
  char why[512];
  rd_kafka_t* const client = rd_kafka_new(RD_KAFKA_CONSUMER, conf.get(), why, sizeof why);
  if (client == nullptr) {
    return InvalidArgument("data.stream.kafka: librdkafka refuses the settings: %s [TD2014]", why);
  }
  static_cast<void>(conf.release());  // the client has it
  // An error says that the settings name no mechanism with callbacks.
  rd_kafka_error_destroy(rd_kafka_sasl_background_callbacks_enable(client));
  rd_kafka_topic_t* const topic = rd_kafka_topic_new(client, options.topic.c_str(), nullptr);
  if (topic == nullptr) {
    const rd_kafka_resp_err_t error = rd_kafka_last_error();
    rd_kafka_destroy(client);
    return InvalidArgument("data.stream.kafka.topic \"%s\": %s [TD2014]", options.topic,
                           rd_kafka_err2str(error));
  }
  return std::unique_ptr<KafkaTopic>(new KafkaTopic(client, topic, std::move(last_error), options));
}

KafkaTopic::~KafkaTopic() {
  for (size_t p = 0; p < started_.size(); ++p) {
    if (started_[p]) rd_kafka_consume_stop(topic_, static_cast<int32_t>(p));
  }
  rd_kafka_topic_destroy(topic_);
  rd_kafka_destroy(client_);
}

Status KafkaTopic::ErrorOf(int error, std::string_view what) const {
  const char* const why = rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(error));
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      return OkStatus();
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return NotFound(
          "topic %s: the brokers %s have no such topic or partition [TD2013]; hint: create the "
          "topic, or correct data.stream.kafka",
          options_.topic, options_.brokers);
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
      return PermissionDenied(
          "topic %s: the brokers %s refuse to %s: %s [TD2013]; hint: allow the user of "
          "data.stream.kafka.properties to read the topic",
          options_.topic, options_.brokers, std::string(what), why);
    default:
      return Unavailable("topic %s: the brokers %s did not %s: %s", options_.topic,
                         options_.brokers, std::string(what),
                         last_error_->empty() ? why : *last_error_);
  }
}

StatusOr<KafkaTopic::Layout> KafkaTopic::Describe() {
  const rd_kafka_metadata_t* found = nullptr;
  const rd_kafka_resp_err_t error = rd_kafka_metadata(client_, 0, topic_, &found, kCallMs);
  rd_kafka_poll(client_, 0);  // serves the callbacks
  TD_RETURN_IF_ERROR(ErrorOf(error, "describe the topic"));
  last_error_->clear();
  const std::unique_ptr<const rd_kafka_metadata_t, void (*)(const rd_kafka_metadata_t*)> owned(
      found, rd_kafka_metadata_destroy);
  if (found->topic_cnt != 1) return Unavailable("topic %s: empty reply", options_.topic);
  const rd_kafka_metadata_topic_t& topic = found->topics[0];
  TD_RETURN_IF_ERROR(ErrorOf(topic.err, "describe the topic"));
  Layout layout{.partitions = topic.partition_cnt, .without_leader = {}};
  for (const auto& partition :
       std::span(topic.partitions, static_cast<size_t>(topic.partition_cnt))) {
    if (partition.leader < 0) layout.without_leader.push_back(partition.id);
  }
  return layout;
}

// `of` is RD_KAFKA_OFFSET_BEGINNING or RD_KAFKA_OFFSET_END: Kafka's protocol takes them instead of
// a time. rd_kafka_query_watermark_offsets asks for both at once, but if the request for the
// beginning fails and both replies arrive together, it returns the end as the beginning without an
// error (librdkafka 2.0.2).
StatusOr<uint64_t> KafkaTopic::OffsetAt(int32_t partition, int64_t of) {
  const std::unique_ptr<rd_kafka_topic_partition_list_t, void (*)(rd_kafka_topic_partition_list_t*)>
      list(rd_kafka_topic_partition_list_new(1), rd_kafka_topic_partition_list_destroy);
  rd_kafka_topic_partition_list_add(list.get(), options_.topic.c_str(), partition)->offset = of;
  rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(client_, list.get(), kCallMs);
  const rd_kafka_topic_partition_t& found = list->elems[0];
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = found.err;
  // librdkafka leaves `of`, a negative number, if no reply arrived in time.
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR && found.offset < 0) error = RD_KAFKA_RESP_ERR__TIMED_OUT;
  TD_RETURN_IF_ERROR(ErrorOf(error, absl::StrFormat("say the offsets of partition %d", partition)));
  return static_cast<uint64_t>(found.offset);
}

StatusOr<KafkaTopic::Offsets> KafkaTopic::OffsetsOf(int32_t partition) {
  TD_ASSIGN_OR_RETURN(const uint64_t begin, OffsetAt(partition, RD_KAFKA_OFFSET_BEGINNING));
  TD_ASSIGN_OR_RETURN(const uint64_t end, OffsetAt(partition, RD_KAFKA_OFFSET_END));
  return Offsets{begin, end};
}

Status KafkaTopic::Start(int32_t partition, uint64_t offset) {
  TD_REQUIRE(partition >= 0);
  const auto at = static_cast<size_t>(partition);
  if (started_.size() <= at) started_.resize(at + 1);
  if (started_[at]) rd_kafka_consume_stop(topic_, partition);
  started_[at] = true;
  if (rd_kafka_consume_start(topic_, partition, static_cast<int64_t>(offset)) == 0) {
    return OkStatus();
  }
  return Internal("topic %s: partition %d cannot be read: %s", options_.topic, partition,
                  rd_kafka_err2str(rd_kafka_last_error()));
}

Status KafkaTopic::OnError(const rd_kafka_message_t& message, int32_t partition,
                           Taken* taken) const {
  const char* const why = rd_kafka_message_errstr(&message);
  if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
    taken->end = static_cast<uint64_t>(message.offset);
    return OkStatus();
  }
  if (message.err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
      message.err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
    return OutOfRange("topic %s, partition %d: %s", options_.topic, partition, why);
  }
  if (std::ranges::find(kUnreadable, message.err) != kUnreadable.end()) {
    return DataLoss(
        "topic %s, partition %d, offset %d: the messages cannot be read: %s [TD2015]; hint: see "
        "the "
        "explanation of the code for settings that this may need",
        options_.topic, partition, message.offset, why);
  }
  Status status = ErrorOf(message.err, "send messages");
  if (status.code() == StatusCode::kPermissionDenied) return status;
  Log(client_, 0, "", why);  // librdkafka fetches again
  return OkStatus();
}

Status KafkaTopic::Take(int32_t partition, size_t count, Taken* taken) {
  rd_kafka_poll(client_, 0);  // serves the callbacks
  std::array<rd_kafka_message_t*, kTakeMax> got{};
  while (count > 0) {
    const ssize_t found =
        rd_kafka_consume_batch(topic_, partition, 0, got.data(), std::min(count, got.size()));
    if (found <= 0) return OkStatus();
    count -= static_cast<size_t>(found);
    Status status;
    for (rd_kafka_message_t* const raw : std::span(got).first(static_cast<size_t>(found))) {
      KafkaMessage message(raw);
      if (!status.ok()) continue;  // the caller starts again after an error
      if (raw->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        taken->messages.push_back(std::move(message));
      } else {
        status = OnError(*raw, partition, taken);
      }
    }
    TD_RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

}  // namespace tandem::reader
