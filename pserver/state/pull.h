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
  bool observer = false;  // true: the caller is no trainer; trainer and incarnation are ignored
  uint64_t min_version = 0;
  std::vector<PullRange> ranges;  // slices to pull; if `ranges` and `rows` are empty: all slices
  // In a_sync mode, minimum number of steps that the slowest trainer has pushed.
  uint64_t min_step = 0;
  // In sync mode, the requested version, which must be the current or the previous one.
  std::optional<uint64_t> at_version;
  std::vector<PullRows> rows;
};
// A slice of a pull's result, in shared, immutable memory that can be sent without a copy.
struct PulledSlice {
  std::string variable;
  int64_t offset = 0, numel = 0;
  Buffer values;     // values of the whole slice
  size_t first = 0;  // index in `values` at which the requested range begins
  int64_t dim = 0;   // 0: dense values; otherwise numel / dim rows of a table
};
struct PullResult {
  uint64_t version = 0;
  uint64_t server_incarnation = 0;
  std::vector<PulledSlice> slices;
  UpdateTime update;  // times of the newest update
};

}  // namespace tandem::pserver
