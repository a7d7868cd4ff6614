// ps_follow and stream_lag: the cost of a read replica, and the time from an acknowledged push
// until a reader of the replica sees it.
//
// ps_follow: alternates between a server with a log and the same server with a replica in this
// process. stream_lag: pushes rows at 50 % and at 90 % of the highest rate of pushes with a
// replica, while a reader reads one row after the other from the replica. A push is readable at the
// first reply that began after the acknowledgement or before it, and that has the version of the
// push.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <thread>

#include "pserver/client/reader.h"
#include "pserver/replica.h"
#include "tests/bench/dense_ps.h"
#include "tests/bench/folder.h"
#include "tests/bench/logged_table.h"
#include "tests/bench/processor_time.h"
#include "tests/bench/report.h"

namespace tandem::bench {
namespace {

constexpr int kTurns = 6;

pserver::PserverOptions Logged(const std::string& dir) {
  pserver::PserverOptions options;
  options.job = "bench";
  options.data_dir = dir;
  options.durability = pserver::Durability::kLogged;
  return options;
}

ps::PsOptions ClientOptions() {
  ps::PsOptions options;
  options.job = "bench";
  options.transport = ps::PsTransport::kShm;
  return options;
}

// A server with a table, a replica of it, and a reader of the replica.
class Followed {
 public:
  Status Start() {
    TD_RETURN_IF_ERROR(folder_.Make());
    TD_RETURN_IF_ERROR(table_.Start(folder_.path() + "/server"));
    TD_ASSIGN_OR_RETURN(replica_, pserver::Replica::Start(Logged(folder_.path() + "/replica"),
                                                          table_.endpoint(), metrics_));
    const Time until = SteadyNow() + std::chrono::seconds(20);
    while (!replica_->endpoint() && SteadyNow() < until) std::this_thread::yield();
    if (!replica_->endpoint()) return Unavailable("the replica does not listen");
    ps::ReaderOptions options;
    options.job = "bench";
    TD_ASSIGN_OR_RETURN(reader_, ps::Reader::Connect({ToString(*replica_->endpoint())}, options));
    return OkStatus();
  }
  Status Push() { return table_.Push(); }
  // Returns the newest version that a reader sees.
  StatusOr<uint64_t> Read() {
    const int64_t id = IdOf(0);
    TD_ASSIGN_OR_RETURN(const ps::Reader::Rows rows, reader_->ReadRows("emb", {&id, 1}));
    return rows.versions[0];
  }
  uint64_t pushes() const { return table_.pushes(); }

 private:
  Folder folder_;
  Metrics metrics_;
  LoggedTable table_;
  std::unique_ptr<pserver::Replica> replica_;
  std::unique_ptr<ps::Reader> reader_;
};

// Returns the seconds from each acknowledgement until the push was readable, at `rate` pushes per
// second.
StatusOr<std::vector<double>> LagsAt(Followed& job, double rate, double seconds) {
  const uint64_t before = job.pushes();
  const auto pushes = static_cast<size_t>(std::max(10.0, rate * seconds));
  std::vector<Time> acknowledged(pushes), readable(pushes);
  std::atomic<bool> failed = false;
  Status read_status;
  std::thread reader([&] {
    size_t seen = 0;
    while (seen < pushes && !failed) {
      const StatusOr<uint64_t> version = job.Read();
      if (!version.ok()) {
        read_status = version.status();
        failed = true;
        return;
      }
      const Time now = SteadyNow();
      for (; seen < pushes && before + seen + 1 <= *version; ++seen) readable[seen] = now;
    }
  });
  const Time start = SteadyNow();
  Status pushed;
  for (size_t i = 0; i < pushes && pushed.ok() && !failed; ++i) {
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<Duration>(
                    std::chrono::duration<double>(static_cast<double>(i) / rate)));
    pushed = job.Push();
    acknowledged[i] = SteadyNow();
  }
  if (!pushed.ok()) failed = true;
  reader.join();
  TD_RETURN_IF_ERROR(pushed);
  TD_RETURN_IF_ERROR(read_status);
  std::vector<double> lags;
  for (size_t i = 0; i < pushes; ++i) {
    lags.push_back(std::max(0.0, Seconds(readable[i] - acknowledged[i])));
  }
  return lags;
}

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace

StatusOr<Report> StreamLag(const RunOptions& options) {
  Followed job;
  TD_RETURN_IF_ERROR(job.Start());
  const Time start = SteadyNow();
  while (Seconds(SteadyNow() - start) < options.seconds) TD_RETURN_IF_ERROR(job.Push());
  const double most = static_cast<double>(job.pushes()) / Seconds(SteadyNow() - start);
  Report report;
  report.Add("pushes_per_s_max", most);
  for (const double load : {0.5, 0.9}) {
    TD_ASSIGN_OR_RETURN(const std::vector<double> lags, LagsAt(job, load * most, options.seconds));
    const std::string name = load == 0.5 ? "half_load" : "high_load";
    report.Add(name + "_p50_ms", 1e3 * Quantile(lags, 0.5));
    report.Add(name + "_p99_ms", 1e3 * Quantile(lags, 0.99));
  }
  return report;
}

StatusOr<Report> PsFollow(const RunOptions& options) {
  const Values gradients = Filled(0.5f);
  Folder folder;
  TD_RETURN_IF_ERROR(folder.Make());
  Metrics metrics;
  DensePs alone, followed;
  TD_RETURN_IF_ERROR(alone.Start(Logged(folder.path() + "/alone"), ClientOptions()));
  TD_RETURN_IF_ERROR(followed.Start(Logged(folder.path() + "/followed"), ClientOptions()));
  TD_ASSIGN_OR_RETURN(const auto replica,
                      pserver::Replica::Start(Logged(folder.path() + "/replica"),
                                              followed.server().endpoint(), metrics));
  const Time until = SteadyNow() + std::chrono::seconds(20);
  while (!replica->endpoint() && SteadyNow() < until) std::this_thread::yield();
  if (!replica->endpoint()) return Unavailable("the replica does not listen");
  double taken[2] = {0, 0}, rounds[2] = {0, 0}, cpu[2] = {0, 0};
  for (int turn = -1; turn < kTurns; ++turn) {
    for (const int side : {0, 1}) {
      DensePs& ps = side == 0 ? alone : followed;
      const Time start = SteadyNow();
      const double before = CpuSeconds();
      double so_far = 0, made = 0;
      do {
        TD_RETURN_IF_ERROR(ps.PushAll(gradients));
        TD_RETURN_IF_ERROR(ps.PullAll());
        ++made;
        so_far = Seconds(SteadyNow() - start);
      } while (so_far < options.seconds / kTurns);
      // The replica must not use the time of the other side.
      while (side == 1 && replica->progress().position.last < replica->progress().primary_last) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (side == 1) so_far = Seconds(SteadyNow() - start);
      if (turn < 0) continue;
      taken[side] += so_far;
      rounds[side] += made;
      cpu[side] += CpuSeconds() - before;
    }
  }
  Report report;
  report.Add("alone_mb_per_s", rounds[0] * 2 * kAllBytes / taken[0] / 1e6);
  report.Add("followed_mb_per_s", rounds[1] * 2 * kAllBytes / taken[1] / 1e6);
  report.Add("alone_cpu_s_per_gb", cpu[0] / (rounds[0] * 2 * kAllBytes) * 1e9);
  report.Add("followed_cpu_s_per_gb", cpu[1] / (rounds[1] * 2 * kAllBytes) * 1e9);
  return report;
}

}  // namespace tandem::bench
