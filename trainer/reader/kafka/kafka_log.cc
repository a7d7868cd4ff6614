#include "trainer/reader/kafka/kafka_log.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "trainer/reader/input/batch_file.h"
#include "trainer/reader/input/sampler.h"

namespace tandem::reader {
namespace {

BatchShare ShareOfRank(const LogShare& share, uint32_t rank) {
  return ShareOf(static_cast<uint32_t>(share.global_batch), rank, share.ranks);
}

}  // namespace

StatusOr<std::unique_ptr<KafkaLog>> KafkaLog::Open(const KafkaLogOptions& options,
                                                   const IsRecord& is_record) {
  TD_REQUIRE(options.share.global_batch > 0 && options.share.rank < options.share.ranks);
  TD_REQUIRE(is_record != nullptr);
  struct stat info {};
  if (stat(options.positions.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return NotFound(
        "data.stream.kafka.positions: directory %s does not exist [TD2001]; hint: create it before "
        "the job starts",
        options.positions);
  }
  std::unique_ptr<KafkaLog> log(new KafkaLog(options));
  const auto is_text = [is_record](std::string_view text) { return is_record(text, false); };
  TD_ASSIGN_OR_RETURN(log->feed_, KafkaFeed::Open(options.feed, is_text, &log->waits_));
  return log;
}

std::string KafkaLog::Describe() const {
  return absl::StrFormat("topic %s of the brokers %s; the positions are in %s", topic(),
                         options_.feed.topic.brokers, options_.positions);
}

Status KafkaLog::Begin(const std::string& job, uint64_t step) {
  TD_RETURN_IF_ERROR(CheckBatchFile(options_.positions, "topic " + topic(), job, step,
                                    options_.share, options_.together));
  const auto path = [&](uint32_t rank) {
    return absl::StrFormat("%s/.tandem-kafka-%s-%d", options_.positions, FileNameOf(job), rank);
  };
  const uint32_t ranks = options_.share.ranks;
  // The check of the first line does not find the files of ranks that the job no longer has.
  if (const std::string more = path(ranks); std::filesystem::exists(more)) {
    return FailedPrecondition(
        "%s has positions of worker %d, but the job has only %d workers now, so other records "
        "belong to each worker [TD2010]; hint: start the job with the former number of workers, or "
        "give the job another name",
        more, ranks, ranks);
  }
  index_.emplace(path(options_.share.rank), topic(), ranks);
  peers_.clear();
  for (uint32_t rank = 0; options_.together && rank < ranks; ++rank) {
    if (rank == options_.share.rank) continue;
    peers_.try_emplace(rank, path(rank), topic(), ranks);
    TD_RETURN_IF_ERROR(peers_.at(rank).Load(UINT64_MAX));
  }
  positioned_ = false;
  return OkStatus();
}

Status KafkaLog::Read(uint64_t step, uint64_t first, uint64_t count, LogLines* lines) {
  const BatchShare share = ShareOfRank(options_.share, options_.share.rank);
  TD_REQUIRE(index_.has_value());
  TD_REQUIRE(first >= share.first && first + count <= share.first + share.size);
  TD_RETURN_IF_ERROR(waits_.Check());
  Status status = Seek(step * share.size + first - share.first);
  int64_t newest = 0;
  uint64_t removed = 0;
  for (uint64_t i = 0; status.ok() && i < count; ++i) {
    StatusOr<std::optional<KafkaMessage>> next = Next(count - i);
    status = next.status();
    if (!status.ok()) break;
    const SegmentIndex::Segment& segment = (*index_)[segment_];
    if (const std::optional<KafkaMessage>& message = *next) {
      newest = std::max(newest, PlausibleTime(message->time_ms(), *PlaceOf(segment.partition)));
      lines->Add(message->text(), PlaceOf(segment.partition), message->offset());
      continue;
    }
    const uint64_t offset = segment.begin + taken_ - 1;
    if (!options_.skip_removed) status = RemovedError(segment.partition, offset);
    lines->AddRemoved(PlaceOf(segment.partition), offset);
    ++removed;
  }
  if (status.ok()) status = AwaitPeers(step);
  // The next read begins with the record that the failed read has taken first.
  if (!status.ok()) positioned_ = false;
  TD_RETURN_IF_ERROR(status);
  newest_time_ms_ = newest;
  removed_ += removed;
  index_->Forget(next_);
  return OkStatus();
}

const std::shared_ptr<const std::string>& KafkaLog::PlaceOf(int32_t partition) {
  std::shared_ptr<const std::string>& place = places_[partition];
  if (place == nullptr) {
    place = std::make_shared<const std::string>(
        absl::StrFormat("topic %s, partition %d", topic(), partition));
  }
  return place;
}

Status KafkaLog::Seek(uint64_t number) {
  if (positioned_ && number == next_) return OkStatus();
  TD_RETURN_IF_ERROR(index_->Load(number));
  if (index_->records() < number) {
    return DataLoss(
        "%s has the offsets of %d records, but the job continues with record %d [TD2010]; hint: "
        "restore the file, or remove the job's positions and state to begin again",
        index_->path(), index_->records(), number);
  }
  TD_RETURN_IF_ERROR(AddPartitions().status());
  const std::optional<uint64_t> segment = index_->SegmentOf(number);
  TD_REQUIRE(segment.has_value());
  segment_ = *segment;
  taken_ = lost_ = counted_ = 0;
  from_ = number;
  std::map<int32_t, uint64_t> offsets = index_->next_offsets();
  for (uint64_t i = index_->end_number(); i > segment_; --i) {
    offsets[(*index_)[i - 1].partition] = (*index_)[i - 1].begin;
  }
  TD_RETURN_IF_ERROR(feed_->Seek(offsets));
  next_ = segment_ < index_->end_number() ? (*index_)[segment_].first : number;
  while (next_ < number) TD_RETURN_IF_ERROR(Next(1).status());
  positioned_ = true;
  return OkStatus();
}

Status KafkaLog::RecordsDiffer(const SegmentIndex::Segment& segment, uint64_t records) {
  return DataLoss(
      "%s: the offsets %d to %d had %d records, but they have %d now [TD2012]; hint: remove the "
      "job's positions and state to begin again, and read no topic with cleanup.policy=compact",
      *PlaceOf(segment.partition), segment.begin, segment.end - 1, segment.records, records);
}

Status KafkaLog::RemovedError(int32_t partition, uint64_t offset) {
  TD_ASSIGN_OR_RETURN(const KafkaTopic::Offsets has, feed_->OffsetsOf(partition));
  return DataLoss(
      "%s: the job needs offset %d, but the brokers have offsets %d to %d [TD2012]; hint: keep "
      "records longer (retention.ms); removed_offsets: SKIP in data.stream.kafka continues without "
      "the removed records",
      *PlaceOf(partition), offset, has.begin, has.end);
}

// Retention removes the oldest offsets, so the first records of a segment are gone if it has fewer
// records than before.
Status KafkaLog::FindLost(const SegmentIndex::Segment& segment) {
  const KafkaFeed::Fetched& fetched = feed_->fetched().at(segment.partition);
  const bool at_gap = fetched.gap && fetched.records.empty();
  if (!at_gap && fetched.removed <= std::max(segment.begin, counted_)) return OkStatus();
  TD_ASSIGN_OR_RETURN(const uint64_t rest,
                      feed_->CountAfterGap(segment.partition, segment.begin, segment.end));
  counted_ = fetched.removed;
  const uint64_t left = segment.records - taken_;
  if (rest > left) return RecordsDiffer(segment, taken_ + rest);
  lost_ = left - rest;
  const uint64_t needed = next_ + lost_ - std::clamp(from_, next_, next_ + lost_);
  if (needed == 0 || !options_.skip_removed) return OkStatus();
  LOG(WARNING) << *PlaceOf(segment.partition) << ": the brokers have removed the offsets before "
               << fetched.removed << ", among them " << needed << " records of the offsets "
               << segment.begin << " to " << segment.end - 1
               << " that the job needs again; samples without values replace them";
  return OkStatus();
}

StatusOr<std::optional<KafkaMessage>> KafkaLog::Next(uint64_t wanted) {
  while (true) {
    if (segment_ == index_->end_number()) {
      TD_RETURN_IF_ERROR(Extend(wanted));
      continue;
    }
    const SegmentIndex::Segment& segment = (*index_)[segment_];
    if (taken_ == segment.records) {
      if (segment.removed) feed_->PassGap(segment.partition, segment.end);
      ++segment_;
      taken_ = counted_ = 0;
      continue;
    }
    if (lost_ == 0) TD_RETURN_IF_ERROR(FindLost(segment));
    std::optional<KafkaMessage> message;
    if (lost_ > 0) {
      --lost_;
    } else {
      TD_ASSIGN_OR_RETURN(message, feed_->Next(segment.partition, segment.begin, segment.end));
      if (!message && feed_->fetched().at(segment.partition).gap) continue;
      if (!message) return RecordsDiffer(segment, taken_);
    }
    ++taken_;
    ++next_;
    return message;
  }
}

Status KafkaLog::Extend(uint64_t wanted) {
  TD_RETURN_IF_ERROR(waits_.Check());
  TD_ASSIGN_OR_RETURN(const bool added, AddPartitions());
  if (added) {
    positioned_ = false;
    return Seek(next_);
  }
  TD_RETURN_IF_ERROR(feed_->Gather(wanted, index_->next_offsets()));
  std::vector<SegmentIndex::Segment> segments;
  for (const auto& [partition, fetched] : feed_->fetched()) {
    const uint64_t begin = index_->next_offsets().at(partition);
    // The last segments may have offsets without records, which were removed meanwhile.
    feed_->PassGap(partition, begin);
    const uint64_t end = std::max(begin, fetched.end);
    TD_REQUIRE(fetched.records.empty() || fetched.records.front().offset() >= begin);
    // A segment without records says that control records of transactions, or messages without a
    // record, are not needed any more.
    if (end > begin) {
      segments.push_back(
          {.partition = partition, .begin = begin, .end = end, .records = fetched.records.size()});
    }
    if (!fetched.gap) continue;
    TD_REQUIRE(fetched.gap->end > end);
    if (!options_.skip_removed) return RemovedError(partition, end);
    segments.push_back(
        {.partition = partition, .begin = end, .end = fetched.gap->end, .removed = true});
  }
  if (segments.empty()) return OkStatus();
  // If another process of this rank has added segments, these come first.
  TD_ASSIGN_OR_RETURN(const bool appended, index_->Append(segments));
  for (const SegmentIndex::Segment& s : segments) {
    if (!appended || !s.removed) continue;
    removed_ += s.end - s.begin;
    LOG(WARNING) << *PlaceOf(s.partition) << ": the brokers have removed the offsets " << s.begin
                 << " to " << s.end - 1 << " before the job read them; the job skips them";
  }
  // The other process may have found a new partition, which this process does not fetch yet.
  if (index_->next_offsets().size() == feed_->fetched().size()) return OkStatus();
  positioned_ = false;
  return Seek(next_);
}

StatusOr<std::vector<int32_t>> KafkaLog::NewPartitions() {
  const std::map<int32_t, uint64_t>& known = index_->next_offsets();
  TD_ASSIGN_OR_RETURN(const int32_t count,
                      feed_->CountPartitions(known.empty() ? 0 : known.rbegin()->first + 1));
  const auto ranks = static_cast<int32_t>(options_.share.ranks);
  if (count < ranks) {
    return FailedPrecondition(
        "topic %s has %d partitions, but the job has %d workers, and each worker needs a partition "
        "[TD2013]; hint: start at most %d workers, or add partitions",
        topic(), count, ranks, count);
  }
  for (const auto& [partition, offset] : known) {
    if (partition % ranks == static_cast<int32_t>(options_.share.rank)) continue;
    return FailedPrecondition(
        "%s has offsets of partition %d, which belongs to another worker if there are %d [TD2010]; "
        "hint: start the job with the former number of workers, or a new job with another name",
        index_->path(), partition, ranks);
  }
  std::vector<int32_t> missing;
  for (auto p = static_cast<int32_t>(options_.share.rank); p < count; p += ranks) {
    if (known.count(p) == 0) missing.push_back(p);
  }
  return missing;
}

// The last partition comes first in the file. If a process dies while it writes the first
// partitions, the others are recognizable: a partition that the topic has got later has a higher
// number than all partitions of the file.
StatusOr<bool> KafkaLog::AddPartitions() {
  bool added = false;
  while (true) {
    TD_ASSIGN_OR_RETURN(const std::vector<int32_t> missing, NewPartitions());
    if (missing.empty()) return added;
    const std::map<int32_t, uint64_t>& known = index_->next_offsets();
    std::vector<SegmentIndex::Segment> segments;
    for (auto p = missing.rbegin(); p != missing.rend(); ++p) {
      const bool later = !known.empty() && *p > known.rbegin()->first;
      TD_ASSIGN_OR_RETURN(const KafkaTopic::Offsets has, feed_->OffsetsOf(*p));
      const uint64_t begin = options_.latest && !later ? has.end : has.begin;
      segments.push_back({.partition = *p, .begin = begin, .end = begin});
      LOG(INFO) << *PlaceOf(*p) << " begins with offset " << begin;
    }
    TD_RETURN_IF_ERROR(index_->Append(segments).status());
    added = true;
  }
}

Status KafkaLog::AwaitPeers(uint64_t step) {
  RecordWait wait(options_.feed.wait_log);
  for (auto& [rank, index] : peers_) {
    const uint64_t needed = (step + 1) * ShareOfRank(options_.share, rank).size;
    while (index.records() < needed) {
      TD_RETURN_IF_ERROR(index.Refresh());
      if (index.records() >= needed) break;
      TD_RETURN_IF_ERROR(
          feed_->Idle(&wait, absl::StrFormat("records of step %d for rank %d", step, rank)));
    }
  }
  return OkStatus();
}

}  // namespace tandem::reader
