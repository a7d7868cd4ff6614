// The offsets of a Kafka topic whose records one rank has numbered, in order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// The index of a rank is a text file with one line for each segment. The records of a rank are the
// records of its segments, one segment after another, so a record number always means the same
// record. If two processes run as the same rank, the segments of the first writer count. The first
// line has the topic and the number of ranks, since the number decides which partitions a rank has.
//
// Not thread-safe. Keeps only the segments from a position on in memory.
class SegmentIndex {
 public:
  // Consecutive offsets of a partition. The segments of a partition have no gap between them. A
  // first segment without records says where the partition begins.
  struct Segment {
    int32_t partition = 0;
    uint64_t begin = 0, end = 0;  // offsets [begin, end)
    uint64_t records = 0;         // records in these offsets; transactions leave offsets without
    uint64_t first = 0;           // number of the first record; Append sets it
    bool removed = false;         // the brokers had removed these offsets before the rank read them
  };

  // `path`: the file. `topic`: name of the topic. `ranks`: number of ranks of the job.
  SegmentIndex(std::string path, std::string topic, uint32_t ranks)
      : path_(std::move(path)), topic_(std::move(topic)), ranks_(ranks) {}

  // Reads the whole file, if there is one. The segments are durable after OK. Keeps the segments
  // that have record `from` or later ones. FAILED_PRECONDITION: the file is of another topic or
  // another number of ranks (a file of an earlier version has no number). DATA_LOSS: the file is
  // damaged (the message names the byte).
  Status Load(uint64_t from);
  // Reads the segments that other processes have added since then. These segments may still be lost
  // with their host. Errors: those of Load.
  Status Refresh();
  // Adds segments. true: the segments are durable. false: another process has added segments, which
  // are read and durable now, and nothing was written. Errors: those of Load; RESOURCE_EXHAUSTED:
  // disk full.
  StatusOr<bool> Append(const std::vector<Segment>& segments);
  // Forgets segments whose records are all below `from`, if there are many of them.
  void Forget(uint64_t from);

  uint64_t records() const { return records_; }  // records of all segments
  // Numbers of the segments: [begin_number, end_number) are in memory.
  uint64_t begin_number() const { return forgotten_; }
  uint64_t end_number() const { return forgotten_ + segments_.size(); }
  const Segment& operator[](uint64_t number) const;
  // Returns the number of the segment with this record. end_number(): no segment has it. nullopt:
  // the segment is no longer in memory (Load reads it).
  std::optional<uint64_t> SegmentOf(uint64_t record) const;
  // Returns the first offset of each partition that no segment has. Missing partitions have no
  // segments.
  const std::map<int32_t, uint64_t>& next_offsets() const { return next_; }
  const std::string& path() const { return path_; }

 private:
  Status ReadNew(int fd);
  // Makes the lines that were read durable, since their writer may not have done so yet.
  Status Sync(int fd) const;
  Status CheckFirstLine(std::string_view line) const;
  Status AddLine(std::string_view line);
  void Add(Segment segment);

  const std::string path_, topic_;
  const uint32_t ranks_;
  std::deque<Segment> segments_;
  std::map<int32_t, uint64_t> next_;
  uint64_t forgotten_ = 0;  // number of segments that are no longer in memory
  uint64_t from_ = 0;       // first record whose segment is needed
  uint64_t records_ = 0;
  uint64_t loaded_ = 0;  // bytes of the file that were read
};

}  // namespace tandem::reader
