// A pull of parameters and rows, and its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/tables/push_header.h"
#include "common/tensor/device.h"
#include "pserver/state/update_time.h"

namespace tandem::pserver {

struct PullRange {
  std::string variable;
  int64_t offset = 0, numel = 0;
};
struct PullRows {
  std::string variable;
  std::vector<uint64_t> ids;
};
struct PullQuery {
  CallerId caller;
  bool observer = false;  // the caller is not a trainer
  uint64_t min_version = 0;
  std::vector<PullRange> ranges;  // empty, and no rows: all slices
  uint64_t min_step = 0;          // a_sync: steps that the slowest trainer must have pushed
  // Sync: exactly this version, the current or the previous one.
  std::optional<uint64_t> at_version;
  std::vector<PullRows> rows;
};
// Shared, immutable memory, which can be sent without a copy.
struct PulledSlice {
  std::string variable;
  int64_t offset = 0, numel = 0;
  Buffer values;     // of the whole slice
  size_t first = 0;  // element of `values` at which the range begins
  int64_t dim = 0;   // 0: a slice; otherwise numel / dim rows of a table
};
struct PullResult {
  uint64_t version = 0;
  uint64_t server_incarnation = 0;
  std::vector<PulledSlice> slices;
  UpdateTime update;  // the newest one
};

}  // namespace tandem::pserver
