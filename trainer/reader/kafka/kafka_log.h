// A topic of Kafka as a log of records.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/reader/input/record_log.h"
#include "trainer/reader/input/wait_switch.h"
#include "trainer/reader/kafka/kafka_feed.h"
#include "trainer/reader/kafka/segment_index.h"

namespace tandem::reader {

struct KafkaLogOptions {
  KafkaFeedOptions feed;
  std::string positions;  // directory of the indexes
  LogShare share;
  // true: a partition without a position begins at its end. false: at its first record. Partitions
  // that a topic gets later always begin at their first record.
  bool latest = false;
  // true: a step begins on all ranks together, so a rank waits for the records of all ranks.
  bool together = false;
  // true: records that the brokers have removed are skipped. false: Read fails.
  bool skip_removed = false;
};

// Rank r of n reads the partitions p with p mod n = r, and its share of each global batch has the
// next records of these partitions. Before the rank uses records, it stores their offsets in its
// index (SegmentIndex), so a step has the same records in every process and after every restart.
// Tandem uses no consumer group and commits no offsets.
//
// Offsets that the brokers have removed before a rank numbered their records become a segment
// without records, so they stay skipped after a restart. If records that have numbers are removed,
// bad lines replace them (LogLines::AddRemoved), so that all other records keep their steps.
class KafkaLog final : public RecordLog {
 public:
  using IsRecord = std::function<bool(std::string_view line, bool first)>;

  // NOT_FOUND: there is no directory `positions`, or no file of settings. INVALID_ARGUMENT: a
  // setting is wrong. Does not wait for a broker.
  static StatusOr<std::unique_ptr<KafkaLog>> Open(const KafkaLogOptions& options,
                                                  const IsRecord& is_record);

  Status Begin(const std::string& job, uint64_t step) override;
  // Besides the errors of RecordLog, UNAVAILABLE: no broker replies. NOT_FOUND: the topic does not
  // exist. FAILED_PRECONDITION: the topic has fewer partitions than ranks or than before.
  // PERMISSION_DENIED: the user may not read the topic.
  Status Read(uint64_t step, uint64_t first, uint64_t count, LogLines* lines) override;
  void EndWaits() override { waits_.End(); }
  void AllowWaits() override { waits_.Allow(); }
  int64_t newest_time_ms() const override { return newest_time_ms_.load(); }
  uint64_t removed() const override { return removed_.load(); }
  const char* part() const override { return "partition"; }
  std::string Describe() const override;

 private:
  explicit KafkaLog(const KafkaLogOptions& options) : options_(options) {}

  const std::string& topic() const { return options_.feed.topic.topic; }
  // Makes `number` the next record of this rank.
  Status Seek(uint64_t number);
  // Reads the next record. `wanted`: records that the caller needs. nullopt: the brokers have
  // removed the record.
  StatusOr<std::optional<KafkaMessage>> Next(uint64_t wanted);
  // Finds how many of the next records of the segment the brokers have removed.
  Status FindLost(const SegmentIndex::Segment& segment);
  // Adds fetched records to the index.
  Status Extend(uint64_t wanted);
  // Returns the error of a segment that has `records` records now.
  Status RecordsDiffer(const SegmentIndex::Segment& segment, uint64_t records);
  // Returns the error of a record that the brokers have removed.
  Status RemovedError(int32_t partition, uint64_t offset);
  // Adds the first offsets of partitions that the index lacks. Returns whether there were some.
  StatusOr<bool> AddPartitions();
  StatusOr<std::vector<int32_t>> NewPartitions();
  Status AwaitPeers(uint64_t step);
  const std::shared_ptr<const std::string>& PlaceOf(int32_t partition);

  const KafkaLogOptions options_;
  WaitSwitch waits_;
  std::unique_ptr<KafkaFeed> feed_;
  std::optional<SegmentIndex> index_;       // nullopt before Begin
  std::map<uint32_t, SegmentIndex> peers_;  // by rank
  bool positioned_ = false;                 // feed_ is at next_
  uint64_t segment_ = 0, taken_ = 0;        // number of the segment, records read from it
  uint64_t next_ = 0;                       // number of the next record
  uint64_t from_ = 0;                       // number of the record of the last Seek
  uint64_t lost_ = 0;     // next records of the segment that the brokers have removed
  uint64_t counted_ = 0;  // end of the removed offsets for which lost_ was found in the segment
  std::map<int32_t, std::shared_ptr<const std::string>> places_;  // by partition, for messages
  std::atomic<int64_t> newest_time_ms_{0};
  std::atomic<uint64_t> removed_{0};
};

}  // namespace tandem::reader
