// The configuration of a job on one server: mode, optimizer, slices and tables.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tables/table_rules.h"
#include "common/tables/update_policy.h"
#include "common/tensor/types.h"
#include "kernels/graph/optimizer.h"

namespace tandem::pserver {

// A slice: elements [offset, offset + numel) of a flattened f32 variable.
struct SliceSpec {
  std::string variable;
  Shape shape;  // shape of the whole variable
  int64_t offset = 0, numel = 0;
  int bucket = 0;  // bucket number in moves, kRowBuckets or more; 0: the slice does not move
  // Compares the elements, but not the buckets.
  friend bool operator==(const SliceSpec& a, const SliceSpec& b) {
    return std::tie(a.variable, a.shape, a.offset, a.numel) ==
           std::tie(b.variable, b.shape, b.offset, b.numel);
  }
};

// The rows of a table [height, dim] that are in the row buckets [bucket_begin, bucket_end)
// (common/tables/row_buckets.h).
struct TableSpec {
  std::string variable;
  Shape shape;  // shape of the whole table: [height, dim]
  graph::Init init;
  uint64_t seed = 0;
  int bucket_begin = 0, bucket_end = 0;
  TableRules rules;
  int64_t height() const { return shape[0]; }
  int64_t dim() const { return shape[1]; }
};

// The configuration of a job, equal for all its trainers.
struct ShardConfig {
  std::string job;
  int trainers = 0;
  UpdatePolicy mode = UpdatePolicy::kSync;
  graph::OptimizerSpec optimizer;
  std::vector<SliceSpec> slices;
  Duration step_timeout = std::chrono::seconds(60);
  std::vector<TableSpec> tables;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  // A trainer is lost if it makes no call for this time, even if no other trainer waits for it. In
  // a_sync mode, other trainers do not wait for a lost trainer until it calls again.
  Duration lost_after = std::chrono::seconds(900);
  // a_sync: the strength s of the delay compensation. A gradient g of a slice becomes g + s * g * g
  // * (w - v), where w is the current value and v is the value that the trainer pulled last.
  float delay_compensation = 0;
  // a_sync: each push has PushHeader::once. Buckets then move between the steps of the trainers. A
  // job may begin to read a stream on servers that it already uses. So Configure changes the value,
  // and a push with PushHeader::once, or an offer of such a job, sets it to true.
  bool each_step_once = false;
};

// Checks a configuration. INVALID_ARGUMENT: a name or range is invalid, ranges overlap, or a limit
// is exceeded (the message says which).
Status CheckConfig(const ShardConfig& config);
// Checks the job of a caller. FAILED_PRECONDITION: `job` differs from `served`, the job of the
// server.
Status CheckJob(const std::string& job, const std::string& served);
// Returns "" if the configurations are equal, apart from each_step_once. Otherwise returns the
// first difference as text: "mode is a_sync, was sync".
std::string Difference(const ShardConfig& now, const ShardConfig& before);
// Copies to `config` the settings that concern faulty pushes and lost trainers. The settings that
// concern stored values stay.
void CopyFaultPolicy(const ShardConfig& from, ShardConfig& config);

}  // namespace tandem::pserver
