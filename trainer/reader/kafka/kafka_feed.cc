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
// Records of a partition. More records would delay those of the other partitions.
constexpr size_t kFetchMax = 2048;
constexpr size_t kChunk = 32;  // messages that are taken before their bytes count

}  // namespace

StatusOr<std::unique_ptr<KafkaFeed>> KafkaFeed::Open(const KafkaFeedOptions& options,
                                                     IsRecord is_record, WaitSwitch* waits) {
  TD_REQUIRE(is_record != nullptr && waits != nullptr);
  std::unique_ptr<KafkaFeed> feed(new KafkaFeed(options, std::move(is_record), waits));
  TD_ASSIGN_OR_RETURN(feed->topic_, KafkaTopic::Open(options.topic));
  return feed;
}

KafkaFeed::Fetched& KafkaFeed::At(int32_t partition) {
  const auto at = fetched_.find(partition);
  TD_REQUIRE(at != fetched_.end());
  return at->second;
}

// Records whether a broker has replied. OK: the caller continues or tries again. A broker whose
// view of the topic is old may say for a while that a topic does not exist or has fewer partitions.
Status KafkaFeed::OnReply(const Status& status) {
  const bool old_view = status.code() == StatusCode::kFailedPrecondition ||
                        (status.code() == StatusCode::kNotFound && partitions_ != 0);
  if (status.code() != StatusCode::kUnavailable && !old_view) {
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
    if (old_view) return status;
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

Status KafkaFeed::CheckLayout(const KafkaTopic::Layout& layout) const {
  if (layout.partitions < known_) {
    return FailedPrecondition(
        "topic %s has %d partitions, but it had %d before [TD2013]; hint: a new topic needs a job "
        "with another name",
        options_.topic.topic, layout.partitions, known_);
  }
  for (const int32_t partition : layout.without_leader) {
    if (fetched_.count(partition) == 0) continue;
    return Unavailable("topic %s: partition %d has no leader, so no broker sends its messages",
                       options_.topic.topic, partition);
  }
  return OkStatus();
}

Status KafkaFeed::Probe(Duration age) {
  if (probed_ && SteadyNow() - *probed_ < age) return OkStatus();
  const StatusOr<KafkaTopic::Layout> layout = topic_->Describe();
  probed_ = SteadyNow();
  const Status status = layout.ok() ? CheckLayout(*layout) : layout.status();
  TD_RETURN_IF_ERROR(OnReply(status));
  if (layout.ok() && layout->partitions >= known_) partitions_ = known_ = layout->partitions;
  return OkStatus();
}

StatusOr<int32_t> KafkaFeed::CountPartitions(int32_t known) {
  known_ = std::max(known_, known);
  while (partitions_ == 0 || partitions_ < known_) {
    TD_RETURN_IF_ERROR(Probe(Duration::zero()));
    if (partitions_ == 0 || partitions_ < known_) TD_RETURN_IF_ERROR(waits_.Wait(kRetryInterval));
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
  records_ = 0;
  for (const auto& [partition, offset] : next) {
    TD_RETURN_IF_ERROR(topic_->Start(partition, offset));
    fetched_[partition].end = offset;
  }
  return OkStatus();
}

Status KafkaFeed::OnOutOfRange(int32_t partition, Fetched* fetched) {
  TD_ASSIGN_OR_RETURN(const KafkaTopic::Offsets has, OffsetsOf(partition));
  if (fetched->end > has.end) {
    return DataLoss(
        "topic %s, partition %d: the job needs offset %d, but the brokers have offsets %d to %d "
        "[TD2012]; hint: remove the job's positions and state to begin again if the topic was "
        "created again",
        options_.topic.topic, partition, fetched->end, has.begin, has.end);
  }
  const uint64_t next = std::max(fetched->end, has.begin);
  if (next > fetched->end) fetched->gap = Gap{fetched->end, next};
  // Without a gap, a new leader did not have the offset for a moment.
  if (next == fetched->end) TD_RETURN_IF_ERROR(waits_.Wait(kRetryInterval));
  return topic_->Start(partition, next);
}

void KafkaFeed::Add(KafkaTopic::Taken taken, Fetched* fetched) {
  for (KafkaMessage& message : taken.messages) {
    fetched->end = message.offset() + 1;
    if (!is_record_(message.text())) continue;
    ++records_;
    fetched->bytes += message.text().size();
    fetched->records.push_back(std::move(message));
  }
  if (taken.end) fetched->end = std::max(fetched->end, *taken.end);
}

Status KafkaFeed::Fetch(int32_t partition, uint64_t count) {
  return FetchUpTo(partition, std::max<uint64_t>(kFetchMax, count), share());
}

Status KafkaFeed::FetchUpTo(int32_t partition, uint64_t count, uint64_t bytes_max) {
  Fetched& fetched = At(partition);
  while (!fetched.gap && fetched.records.size() < count) {
    if (!fetched.records.empty() && fetched.bytes >= bytes_max) return OkStatus();
    KafkaTopic::Taken taken;
    const Status status =
        topic_->Take(partition, std::min(kChunk, count - fetched.records.size()), &taken);
    const bool empty = taken.messages.empty();
    Add(std::move(taken), &fetched);
    if (!empty) TD_RETURN_IF_ERROR(OnReply(OkStatus()));
    if (status.code() == StatusCode::kOutOfRange) return OnOutOfRange(partition, &fetched);
    TD_RETURN_IF_ERROR(status);
    if (empty) return OkStatus();
  }
  return OkStatus();
}

void KafkaFeed::Drop(Fetched* fetched, uint64_t begin) {
  while (!fetched->records.empty() && fetched->records.front().offset() < begin) {
    --records_;
    fetched->bytes -= fetched->records.front().text().size();
    fetched->records.pop_front();
  }
}

Status KafkaFeed::AwaitOffset(RecordWait* wait, int32_t partition, uint64_t end) {
  TD_RETURN_IF_ERROR(Idle(wait, absl::StrFormat("record after offset %d of partition %d",
                                                At(partition).end, partition)));
  if (down_ || wait->waited() < options_.broker_wait) return OkStatus();
  TD_ASSIGN_OR_RETURN(const KafkaTopic::Offsets has, OffsetsOf(partition));
  if (has.end >= end) return OkStatus();
  return DataLoss(
      "topic %s, partition %d: the job needs offset %d, but the brokers have offsets %d to %d for "
      "%s [TD2012]; hint: remove the job's positions and state to begin again if the topic was "
      "created again or has lost records",
      options_.topic.topic, partition, end - 1, has.begin, has.end, FormatDuration(wait->waited()));
}

StatusOr<std::optional<KafkaMessage>> KafkaFeed::Next(int32_t partition, uint64_t begin,
                                                      uint64_t end) {
  RecordWait wait(options_.wait_log);
  Fetched& fetched = At(partition);
  while (true) {
    Drop(&fetched, begin);
    if (!fetched.records.empty()) {
      if (fetched.records.front().offset() >= end) return std::optional<KafkaMessage>();
      std::optional<KafkaMessage> message = std::move(fetched.records.front());
      const uint64_t bytes = message->text().size();
      --records_;
      fetched.bytes -= bytes;
      fetched.records.pop_front();
      return message;
    }
    if (fetched.gap || fetched.end >= end) return std::optional<KafkaMessage>();
    TD_RETURN_IF_ERROR(Fetch(partition, 1));
    if (!fetched.records.empty() || fetched.gap || fetched.end >= end) continue;
    TD_RETURN_IF_ERROR(AwaitOffset(&wait, partition, end));
  }
}

void KafkaFeed::PassGap(int32_t partition, uint64_t end) {
  Fetched& fetched = At(partition);
  if (!fetched.gap || fetched.gap->begin >= end) return;
  fetched.end = fetched.removed = std::min(fetched.gap->end, end);
  fetched.gap->begin = fetched.end;
  if (fetched.gap->end == fetched.end) fetched.gap.reset();
}

StatusOr<uint64_t> KafkaFeed::CountAfterGap(int32_t partition, uint64_t begin, uint64_t end) {
  RecordWait wait(options_.wait_log);
  Fetched& fetched = At(partition);
  while (true) {
    if (fetched.gap && fetched.gap->begin < end) {
      // Nothing says how many records a further gap had, so records before it count as removed.
      Drop(&fetched, fetched.gap->begin);
      PassGap(partition, end);
    }
    Drop(&fetched, begin);
    const auto below = std::ranges::find_if(
        fetched.records, [end](const KafkaMessage& message) { return message.offset() >= end; });
    if (below != fetched.records.end() || fetched.end >= end) {
      return static_cast<uint64_t>(below - fetched.records.begin());
    }
    const uint64_t before = fetched.end;
    TD_RETURN_IF_ERROR(FetchUpTo(partition, fetched.records.size() + kFetchMax, UINT64_MAX));
    if (fetched.end == before && !fetched.gap) {
      TD_RETURN_IF_ERROR(AwaitOffset(&wait, partition, end));
    }
  }
}

Status KafkaFeed::Gather(uint64_t count, const std::map<int32_t, uint64_t>& stored) {
  RecordWait wait(options_.wait_log);
  const int32_t partitions = partitions_;
  while (true) {
    bool done = false, unstored = false;
    for (auto& [partition, fetched] : fetched_) {
      // The positions have passed offsets whose records this process does not need any more.
      Drop(&fetched, stored.at(partition));
      TD_RETURN_IF_ERROR(Fetch(partition, count));
      Drop(&fetched, stored.at(partition));
      done = done || fetched.gap || (!fetched.records.empty() && fetched.bytes >= share());
      unstored = unstored || fetched.end > stored.at(partition);
    }
    TD_RETURN_IF_ERROR(Probe(kProbeBusy));
    done = done || records_ >= count || partitions_ != partitions;
    if (done || (unstored && wait.waited() >= kProbeIdle)) return OkStatus();
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
