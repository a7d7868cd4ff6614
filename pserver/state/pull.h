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
  bool observer = false;  // the caller is no trainer, so the server ignores trainer and incarnation
  uint64_t min_version = 0;
  std::vector<PullRange> ranges;  // slices to pull; if `ranges` and `rows` are empty: all slices
  // a_sync: the server replies when the slowest trainer has pushed at least this number of steps.
  uint64_t min_step = 0;
  // sync: the requested version, which must be the current or the previous version.
  std::optional<uint64_t> at_version;
  std::vector<PullRows> rows;
  bool version_only = false;  // the result has no values, whatever `ranges` and `rows` are
};
// A slice in the reply to a pull, in shared, immutable memory that can be sent without a copy.
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
  UpdateTime update;  // begin and end of the newest update
};

}  // namespace tandem::pserver
