// Changes of a table between two versions, for readers that follow the table
// (docs/internals/change-stream.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/tables/row_buckets.h"

namespace tandem::pserver {

// Changes of rows, in versions of one server. They are complete up to `version`. If `until` is
// higher, the changes up to `until` of the rows with ids up to `last_id` are complete too.
struct ChangedUpTo {
  uint64_t version = 0;
  uint64_t until = 0;
  uint64_t last_id = 0;
  bool partial() const { return until > version; }
  friend bool operator==(const ChangedUpTo&, const ChangedUpTo&) = default;
};

struct ChangesQuery {
  std::string job, table;
  std::optional<ChangedUpTo> after;  // nullopt: the reader has nothing
  std::vector<int> buckets;          // row buckets of which the reader needs all rows, ascending
  size_t bytes_max = 0;              // bytes of rows from which on no more rows are added
  // Row buckets [begin, end) whose changed rows the reader needs.
  int begin = 0, end = kRowBuckets;
  // Rows with a lower score count as removed; nullopt: all rows are read.
  std::optional<float> score_min;
};

struct TableChanges {
  // Row buckets [begin, end), which the server serves since this ownership epoch (move_state.h).
  struct Served {
    int begin = 0, end = 0;
    uint64_t epoch = 0;
  };

  uint64_t version = 0;  // the values are of this version
  uint64_t number = 0;   // the values contain no log entry after this one
  ChangedUpTo up_to;     // the position of the reader after these changes
  // true: the server does not know what changed since the position of the reader.
  bool restart = false;
  int64_t dim = 0;
  std::vector<uint64_t> ids;      // rows that exist
  std::vector<float> values;      // [ids, dim]
  std::vector<uint64_t> removed;  // rows that do not exist
  std::vector<int> buckets;       // buckets of the query of which all rows are here
  std::vector<Served> served;     // ascending
};

}  // namespace tandem::pserver
