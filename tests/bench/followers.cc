// ps_changes: the cost of a follower of a table, and the time from an acknowledged push until the
// follower has its rows.
//
// Alternates pushes of 1,000 rows between three servers with a log in this process: one that does
// not remember changed rows, one that does, and one that has a follower too. Then pushes at half of
// the highest rate to the third server, and waits for the rows of each push. Last, it compares a
// follower that asks every 20 ms (polled) with one whose requests the server holds (held): the time
// until it has a push when pushes are rare, and the processor time of an idle second.
#include <algorithm>
#include <atomic>
#include <thread>

#include "pserver/client/follow/table_follower.h"
#include "tests/bench/folder.h"
#include "tests/bench/logged_table.h"
#include "tests/bench/processor_time.h"
#include "tests/bench/report.h"

namespace tandem::bench {
namespace {

constexpr int kTurns = 6;
constexpr Duration kWait = std::chrono::milliseconds(100);

// Follows the table on a thread, until it is destroyed.
class Follower {
 public:
  ~Follower() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Status Start(const std::string& address, Duration wait = ps::FollowOptions().wait) {
    ps::ReaderOptions options;
    options.job = "bench";
    TD_ASSIGN_OR_RETURN(
        follower_, ps::TableFollower::Connect({address}, options, {.table = "emb", .wait = wait}));
    thread_ = std::thread([this] {
      while (!stop_) {
        const auto change = follower_->Next(kWait);
        if (!change.ok()) {
          failed_ = true;
          return;
        }
        if (!*change) continue;
        rows_ += (*change)->ids.size();
        version_ = (*change)->version;
      }
    });
    return OkStatus();
  }
  // Waits until the follower has all changes up to `version`.
  Status Await(uint64_t version) const {
    while (version_ < version && !failed_) std::this_thread::yield();
    return failed_ ? Unavailable("the follower has failed") : OkStatus();
  }
  uint64_t rows() const { return rows_; }

 private:
  std::unique_ptr<ps::TableFollower> follower_;
  std::atomic<bool> stop_ = false, failed_ = false;
  std::atomic<uint64_t> version_ = 0, rows_ = 0;
  std::thread thread_;
};

// Measures a follower of a server that has few pushes, then none.
Status AddRarePushes(const std::string& name, Duration wait, LoggedTable& table, Report& report) {
  constexpr int kPushes = 41;
  Follower follower;
  TD_RETURN_IF_ERROR(follower.Start(ToString(table.endpoint()), wait));
  std::vector<double> lags;
  for (int i = 0; i < kPushes; ++i) {
    // The pause is no multiple of the interval of the requests.
    std::this_thread::sleep_for(std::chrono::milliseconds(43));
    TD_RETURN_IF_ERROR(table.Push());
    const Time acknowledged = SteadyNow();
    TD_RETURN_IF_ERROR(follower.Await(table.pushes()));
    if (i > 0) lags.push_back(Seconds(SteadyNow() - acknowledged));
  }
  std::sort(lags.begin(), lags.end());
  report.Add(name + "_rare_lag_p50_ms", 1e3 * lags[lags.size() / 2]);
  report.Add(name + "_rare_lag_max_ms", 1e3 * lags.back());
  const double before = CpuSeconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  report.Add(name + "_idle_cpu_ms_per_s", 1e3 * (CpuSeconds() - before));
  return OkStatus();
}

}  // namespace

StatusOr<Report> PsChanges(const RunOptions& options) {
  Folder folder;
  TD_RETURN_IF_ERROR(folder.Make());
  LoggedTable tables[3];
  const char* const names[3] = {"forgetful", "alone", "followed"};
  for (const int side : {0, 1, 2}) {
    TD_RETURN_IF_ERROR(
        tables[side].Start(folder.path() + "/" + names[side], side == 0 ? 0 : kChangedRowsMax));
  }
  Follower follower;
  TD_RETURN_IF_ERROR(follower.Start(ToString(tables[2].endpoint())));
  double taken[3] = {0, 0, 0}, pushes[3] = {0, 0, 0};
  for (int turn = -1; turn < kTurns; ++turn) {
    for (const int side : {0, 1, 2}) {
      const Time start = SteadyNow();
      double so_far = 0, made = 0;
      do {
        TD_RETURN_IF_ERROR(tables[side].Push());
        ++made;
        so_far = Seconds(SteadyNow() - start);
      } while (so_far < options.seconds / kTurns);
      // The follower must not use the time of the other sides.
      if (side == 2) {
        TD_RETURN_IF_ERROR(follower.Await(tables[2].pushes()));
        so_far = Seconds(SteadyNow() - start);
      }
      if (turn < 0) continue;
      taken[side] += so_far;
      pushes[side] += made;
    }
  }
  Report report;
  for (const int side : {0, 1, 2}) {
    report.Add(std::string(names[side]) + "_rows_per_s",
               pushes[side] * static_cast<double>(kRowsOfPush) / taken[side]);
  }
  report.Add("sent_share", static_cast<double>(follower.rows()) /
                               static_cast<double>(tables[2].pushes() * kRowsOfPush));
  std::vector<double> lags;
  const auto pause =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(2 * taken[1] / pushes[1]));
  for (Time next = SteadyNow(), end = next + std::chrono::seconds(2); next < end; next += pause) {
    std::this_thread::sleep_until(next);
    TD_RETURN_IF_ERROR(tables[2].Push());
    const Time acknowledged = SteadyNow();
    TD_RETURN_IF_ERROR(follower.Await(tables[2].pushes()));
    lags.push_back(Seconds(SteadyNow() - acknowledged));
  }
  std::sort(lags.begin(), lags.end());
  report.Add("lag_p50_ms", 1e3 * lags[lags.size() / 2]);
  report.Add("lag_p99_ms", 1e3 * lags[lags.size() * 99 / 100]);
  TD_RETURN_IF_ERROR(AddRarePushes("polled", Duration::zero(), tables[1], report));
  TD_RETURN_IF_ERROR(AddRarePushes("held", ps::FollowOptions().wait, tables[1], report));
  return report;
}

}  // namespace tandem::bench
