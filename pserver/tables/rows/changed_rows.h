// Remembers which rows of a table changed in which version, so that readers can follow the table.
//
// The ids are in segments of consecutive versions. The newest segments have one version each. Older
// segments are merged, and each id occurs once in a segment: a row that changes often takes little
// memory. A merged segment gives a reader more rows than changed after its version, which is
// harmless, because a reader gets the current values of the rows. The merges are those of a
// log-structured merge tree (O'Neil et al., Acta Informatica 33, 1996), without values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "pserver/state/changes.h"

namespace tandem::pserver {

// The changed rows of one table. Not thread-safe (the shard's lock guards it).
class ChangedRows {
 public:
  // `ids_max`: maximum number of ids, 8 bytes each. Beyond it, the oldest segments are dropped. 0:
  // nothing is remembered.
  explicit ChangedRows(size_t ids_max) : ids_max_(ids_max) {}

  // Begins the update from `version` to `version` + 1. The changes before the first call are
  // unknown. If the version decreases, as on a server that receives its first buckets, all earlier
  // changes are forgotten.
  void Begin(uint64_t version);
  // Adds rows that the begun update changes or removes. `ids`: ascending.
  void Add(std::span<const uint64_t> ids);
  bool remembers() const { return ids_max_ != 0; }

  struct Result {
    std::vector<uint64_t> ids;  // ascending
    ChangedUpTo up_to;
  };
  // Returns rows that changed after `after`, at most about `ids_wanted`, but at least one if there
  // is one. `version`: the current version. nullopt: these changes are unknown.
  std::optional<Result> After(const ChangedUpTo& after, uint64_t version, size_t ids_wanted) const;

 private:
  struct Segment {
    uint64_t first = 0, last = 0;  // versions, inclusive
    std::vector<uint64_t> ids;     // ascending, each once
  };
  // The number of newest segments that are not merged. A reader that asks often gets few rows that
  // it already has.
  static constexpr size_t kSingle = 1024;
  // Two segments are not merged into one with more ids.
  static constexpr size_t kSegmentIdsMax = 1 << 16;

  void MergeOld();

  size_t ids_max_;
  std::optional<uint64_t> floor_;  // changes after this version are known; nullopt: no update yet
  uint64_t version_ = 0;           // the version that the begun update makes
  size_t ids_ = 0;                 // number of ids in all segments
  std::deque<Segment> merged_;     // older segments
  std::deque<Segment> single_;     // newer segments, one version each
};

}  // namespace tandem::pserver
