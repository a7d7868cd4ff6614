#include "trainer/reader/kafka/kafka_feed.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::reader {
namespace {

constexpr Duration kPollInterval = std::chrono::milliseconds(10);
constexpr Duration kRetryInterval = std::chrono::milliseconds(200);
constexpr Duration kProbeIdle = std::chrono::seconds(1);
constexpr Duration kProbeBusy = std::chrono::seconds(30);
constexpr size_t kFetchMax = 8192;                  // records of a partition
constexpr uint64_t kBytesMax = uint64_t{32} << 20;  // bytes of all fetched records

}  // namespace

StatusOr<std::unique_ptr<KafkaFeed>> KafkaFeed::Open(const KafkaFeedOptions& options,
                                                     IsRecord is_record, WaitSwitch* waits) {
  TD_REQUIRE(is_record != nullptr && waits != nullptr);
  std::unique_ptr<KafkaFeed> feed(new KafkaFeed(options, std::move(is_record), waits));
  TD_ASSIGN_OR_RETURN(feed->topic_, KafkaTopic::Open(options.topic));
  return feed;
}

// Records whether a broker has replied. OK: the caller continues or tries again.
Status KafkaFeed::OnReply(const Status& status) {
  const bool retries = status.code() == StatusCode::kUnavailable ||
                       (status.code() == StatusCode::kNotFound && partitions_ != 0);
  if (!retries) {
    if (status.ok() && down_) {
      LOG(INFO) << "topic " << options_.topic.topic << ": the brokers reply again after "
                << FormatDuration(down_->waited());
    }
    if (status.ok()) down_.reset();
    return status;
  }
  const bool first = !down_;
  if (first) down_.emplace(options_.wait_log);
  if (down_->waited() >= options_.broker_wait) {
    return Unavailable(
        "%s; the job has waited %s for a broker [TD2011]; hint: start a broker, or check "
        "data.stream.kafka.brokers, and start the job again",
        std::string(status.message()), FormatDuration(down_->waited()));
  }
  if (first || down_->LogDue()) {
    LOG(WARNING) << status.message() << "; the trainer waits for a broker for up to "
                 << FormatDuration(options_.broker_wait - down_->waited());
  }
  return OkStatus();
}

Status KafkaFeed::Probe(Duration age) {
  if (probed_ && SteadyNow() - *probed_ < age) return OkStatus();
  const StatusOr<int32_t> count = topic_->CountPartitions();
  probed_ = SteadyNow();
  TD_RETURN_IF_ERROR(OnReply(count.status()));
  if (!count.ok()) return OkStatus();
  if (*count < partitions_) {
    return FailedPrecondition(
        "topic %s has %d partitions now, but it had %d [TD2013]; hint: a new topic needs a job "
        "with "
        "another name",
        options_.topic.topic, *count, partitions_);
  }
  partitions_ = *count;
  return OkStatus();
}

StatusOr<int32_t> KafkaFeed::CountPartitions() {
  while (partitions_ == 0) {
    TD_RETURN_IF_ERROR(Probe(Duration::zero()));
    if (partitions_ == 0) TD_RETURN_IF_ERROR(waits_.Wait(kRetryInterval));
  }
  return partitions_;
}

StatusOr<KafkaTopic::Offsets> KafkaFeed::OffsetsOf(int32_t partition) {
  while (true) {
    StatusOr<KafkaTopic::Offsets> offsets = topic_->OffsetsOf(partition);
    TD_RETURN_IF_ERROR(OnReply(offsets.status()));
    if (offsets.ok()) return offsets;
    TD_RETURN_IF_ERROR(waits_.Wait(kRetryInterval));
  }
}

Status KafkaFeed::Seek(const std::map<int32_t, uint64_t>& next) {
  fetched_.clear();
  records_ = bytes_ = 0;
  for (const auto& [partition, offset] : next) {
    TD_RETURN_IF_ERROR(topic_->Start(partition, offset));
    fetched_[partition].end = offset;
  }
  return OkStatus();
}

Status KafkaFeed::WhyOutOfRange(int32_t partition, uint64_t next) {
  TD_ASSIGN_OR_RETURN(const KafkaTopic::Offsets has, OffsetsOf(partition));
  return DataLoss(
      "topic %s, partition %d: the job needs offset %d, but the brokers have offsets %d to %d "
      "[TD2012]; hint: keep records longer (retention.ms), or remove the job's positions and state "
      "to begin again",
      options_.topic.topic, partition, next, has.begin, has.end);
}

Status KafkaFeed::Fetch(int32_t partition, uint64_t count) {
  const auto at = fetched_.find(partition);
  TD_REQUIRE(at != fetched_.end());
  Fetched& fetched = at->second;
  const size_t most = std::max<size_t>(kFetchMax, count);
  if (fetched.records.size() >= most) return OkStatus();
  std::vector<KafkaMessage> messages;
  Status taken = topic_->Take(partition, most - fetched.records.size(), &messages);
  for (KafkaMessage& message : messages) {
    fetched.end = message.offset() + 1;
    if (!is_record_(message.text())) continue;
    ++records_;
    bytes_ += message.text().size();
    fetched.records.push_back(std::move(message));
  }
  if (!messages.empty()) TD_RETURN_IF_ERROR(OnReply(OkStatus()));
  if (taken.code() == StatusCode::kOutOfRange) return WhyOutOfRange(partition, fetched.end);
  return taken;
}

StatusOr<KafkaMessage> KafkaFeed::Next(int32_t partition) {
  RecordWait wait(options_.wait_log);
  while (true) {
    const auto at = fetched_.find(partition);
    TD_REQUIRE(at != fetched_.end());
    if (!at->second.records.empty()) {
      KafkaMessage message = std::move(at->second.records.front());
      at->second.records.pop_front();
      --records_;
      bytes_ -= message.text().size();
      return message;
    }
    TD_RETURN_IF_ERROR(Fetch(partition, 1));
    if (!at->second.records.empty()) continue;
    TD_RETURN_IF_ERROR(Idle(&wait, absl::StrFormat("record after offset %d of partition %d",
                                                   at->second.end, partition)));
  }
}

Status KafkaFeed::Gather(uint64_t count) {
  RecordWait wait(options_.wait_log);
  const int32_t partitions = partitions_;
  while (true) {
    for (const auto& [partition, unused] : fetched_) {
      if (bytes_ < kBytesMax) TD_RETURN_IF_ERROR(Fetch(partition, count));
    }
    TD_RETURN_IF_ERROR(Probe(kProbeBusy));
    const bool full = records_ > 0 && bytes_ >= kBytesMax;
    if (records_ >= count || full || partitions_ != partitions) return OkStatus();
    TD_RETURN_IF_ERROR(Idle(&wait, "new record"));
  }
}

Status KafkaFeed::Idle(RecordWait* wait, const std::string& missing) {
  TD_RETURN_IF_ERROR(waits_.Wait(kPollInterval));
  if (wait->waited() >= kProbeIdle) TD_RETURN_IF_ERROR(Probe(kProbeIdle));
  if (!down_ && wait->LogDue()) {
    LOG(INFO) << "topic " << options_.topic.topic << " has no " << missing << " for "
              << FormatDuration(wait->waited());
  }
  return OkStatus();
}

}  // namespace tandem::reader
