// Common code of the benchmarks of sparse pulls. A pserver in this process has a table of a million
// rows with 16 values each. Requests read rows of this table.
#pragma once

#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "kernels/exec/comm.h"
#include "tests/bench/ps_pair.h"

namespace tandem::bench {

inline constexpr int64_t kHeight = int64_t{1} << 40, kDim = 16;
inline constexpr size_t kRows = 1 << 20, kKeys = 10'000, kRequests = 64;

// Returns the id of row `i`. Ids are far apart, like hashed features.
constexpr int64_t IdOf(uint64_t i) { return static_cast<int64_t>((i * 0x9e3779b97f4a7c15) >> 24); }
// Returns the ids of all rows in ascending order.
std::vector<int64_t> AllIds();

// Ids of kRequests requests, one vector per request.
using Keys = std::vector<std::vector<int64_t>>;

// Draws requests of kKeys different ids each, in ascending order. `cdf` [kRows] is the cumulative
// probability of the rows. Empty: all rows are equally likely.
Keys Draw(const std::vector<double>& cdf);
// Returns cumulative probabilities. The probability of row i is proportional to 1 / (i + 1)^1.05,
// as in the measurements on which the project's goals are based.
std::vector<double> Zipf();

// A table on a pserver in this process, with its client. Admission is on, and every row exists. Not
// thread-safe.
class RowsTable {
 public:
  struct Options {
    ps::PsTransport transport = ps::PsTransport::kAuto;
    double memory_share = 1;    // fraction of the rows that fit into memory
    std::string cold_dir = {};  // directory for rows that do not fit into memory
  };
  Status Start(const Options& options);
  Status Push(std::span<const int64_t> ids);
  // Starts a pull. At most two pulls are in progress: the call first waits until the second-last
  // pull has ended. The rows of this pull are complete after AwaitPulls, or after two more calls of
  // Pull.
  Status Pull(const std::vector<int64_t>& ids);
  Status AwaitPulls();
  // Returns the rows of the last started pull. The rows are complete only when this pull has ended.
  std::span<const float> out() const { return under_way_[(pulls_ + 1) % 2].out; }

 private:
  struct UnderWay {
    std::vector<float> out = std::vector<float>(kKeys * kDim);
    bool started = false;
    exec::CommDone done;
  };
  static Status Await(UnderWay& pull);

  std::vector<float> ones_ = std::vector<float>(kKeys * kDim, 1.0f);
  UnderWay under_way_[2];
  uint64_t pulls_ = 0;
  uint64_t step_ = 0;
  PsPair ps_;  // the last member, so it is destroyed first: calls in progress use the other members
};

// Calls `run` for each request, in repeated passes, until `seconds` have passed. Returns the rows
// per second.
template <typename Requests, typename Run>
StatusOr<double> RowsPerSecond(const Requests& requests, double seconds, const Run& run) {
  for (const auto& request : requests) TD_RETURN_IF_ERROR(run(request));
  size_t rows = 0;
  const Time start = SteadyNow();
  double taken = 0;
  while (taken < seconds) {
    for (const auto& request : requests) {
      TD_RETURN_IF_ERROR(run(request));
      rows += kKeys;
    }
    taken = Seconds(SteadyNow() - start);
  }
  return static_cast<double>(rows) / taken;
}

}  // namespace tandem::bench
