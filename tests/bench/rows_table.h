// The common part of the figures about sparse pulls: a table of a million rows of 16 on a pserver
// in this process, and requests for its rows.
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

// Ids are far apart, like hashed features.
constexpr int64_t IdOf(uint64_t i) { return static_cast<int64_t>((i * 0x9e3779b97f4a7c15) >> 24); }
// Ids of all rows, ascending.
std::vector<int64_t> AllIds();

using Keys = std::vector<std::vector<int64_t>>;  // ids of kRequests requests

// Draws rows until each request has kKeys different ones, ascending. `cdf` [kRows]: cumulative
// probability of the rows; empty: all are equally likely.
Keys Draw(const std::vector<double>& cdf);
// Row i has a probability proportional to 1 / (i + 1)^1.05, as in the measurements from which the
// goals come.
std::vector<double> Zipf();

// Admission is on, and every row exists. Not thread-safe.
class RowsTable {
 public:
  struct Options {
    ps::PsTransport transport = ps::PsTransport::kAuto;
    double memory_share = 1;    // share of the rows that are in memory
    std::string cold_dir = {};  // directory for the other rows
  };
  Status Start(const Options& options);
  Status Push(std::span<const int64_t> ids);
  // Starts the next pull once the one before the last has ended. `out` has its rows after
  // AwaitPulls, or after the pull after the next one, has returned.
  Status Pull(const std::vector<int64_t>& ids);
  Status AwaitPulls();
  // Rows of the pull that was started last.
  std::span<const float> out() const { return under_way_[(pulls_ + 1) % 2].out; }

 private:
  struct UnderWay {
    std::vector<float> out = std::vector<float>(kKeys * kDim);
    bool started = false;
    CommDone done;
  };
  static Status Await(UnderWay& pull);

  std::vector<float> ones_ = std::vector<float>(kKeys * kDim, 1.0f);
  UnderWay under_way_[2];
  uint64_t pulls_ = 0;
  uint64_t step_ = 0;
  PsPair ps_;  // last member: its calls use the rest
};

// Rows per second of repeated `run` over all requests.
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
