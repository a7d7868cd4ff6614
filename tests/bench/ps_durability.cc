// ps_exactly_once, ps_logged, ps_quorum, ps_snapshot and ps_recovery: the cost of exactly-once
// pushes and of durability.
//
// ps_exactly_once: large pushes (1 MB) and small pushes (1 KB) to a server. driver.py alternates
// between this program and the same program with a server that does not remember accepted pushes
// (tests/sim/mutants). ps_exactly_once also alternates between three servers: a server that logs
// the pushes (durability logged), a server that logs only the order of pushes (durability
// replayable) and a server without a log. ps_logged: alternates between a server that logs the
// pushes and a writer of the same bytes to a file. ps_quorum: alternates between a server that logs
// the pushes and the same server with a standby in this process, which logs and applies them too.
// ps_snapshot: measures pushes and pulls, in turns without checkpoints and while the server writes
// checkpoints one after the other. ps_recovery: writes the data directory of a server. driver.py
// measures the restart of that server.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "common/os/fd.h"
#include "pserver/pserver.h"
#include "pserver/standby.h"
#include "tests/bench/dense_ps.h"
#include "tests/bench/folder.h"
#include "tests/bench/processor_time.h"
#include "tests/bench/report.h"
#include "tests/bench/rows_table.h"

namespace tandem::bench {
namespace {

constexpr int kTurns = 6;  // number of measured turns of each alternative
constexpr double kMegabyte = 1e6;

ps::PsOptions OverShm() {
  ps::PsOptions options;
  options.transport = ps::PsTransport::kShm;
  return options;
}

// Calls `run` repeatedly, at least once, until `seconds` have passed. Adds the elapsed seconds to
// *taken and the number of calls to *runs.
Status Repeat(double seconds, const std::function<Status()>& run, double* taken, double* runs) {
  const Time start = SteadyNow();
  double so_far = 0;
  do {
    TD_RETURN_IF_ERROR(run());
    *runs += 1;
    so_far = Seconds(SteadyNow() - start);
  } while (so_far < seconds);
  *taken += so_far;
  return OkStatus();
}

struct Rate {
  double rounds_per_s = 0;
  double cpu_s = 0;  // seconds of processor time of this process a round
};

// Returns one rate per side. The sides run one after the other in each of kTurns turns. Each side
// is measured for `seconds` in total.
StatusOr<std::vector<Rate>> InTurns(const std::vector<std::function<Status()>>& sides,
                                    double seconds) {
  std::vector<double> taken(sides.size()), runs(sides.size()), cpu(sides.size());
  for (int turn = -1; turn < kTurns; ++turn) {
    if (turn == 0) taken = runs = cpu = std::vector<double>(sides.size());
    for (size_t i = 0; i < sides.size(); ++i) {
      const double before = CpuSeconds();
      TD_RETURN_IF_ERROR(Repeat(seconds / kTurns, sides[i], &taken[i], &runs[i]));
      cpu[i] += CpuSeconds() - before;
    }
  }
  std::vector<Rate> rates;
  for (size_t i = 0; i < sides.size(); ++i) rates.push_back({runs[i] / taken[i], cpu[i] / runs[i]});
  return rates;
}

// A round pushes every variable once.
StatusOr<std::vector<Rate>> InTurns(const std::vector<DensePs*>& servers, const Values& gradients,
                                    double seconds) {
  std::vector<std::function<Status()>> sides;
  for (DensePs* const server : servers) {
    sides.emplace_back([server, &gradients] { return server->PushAll(gradients); });
  }
  return InTurns(sides, seconds);
}

// Writes bytes to a file as the log of a server does: one write at a time, a sync every 100 ms, and
// a new file after 256 MiB.
class SequentialWriter {
 public:
  SequentialWriter(std::string path, size_t bytes)
      : path_(std::move(path)), data_(bytes, 'x'), synced_(SteadyNow()) {}
  Status Write() {
    if (!file_.valid() || size_ >= kFileBytes) {
      file_ = Fd(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      size_ = 0;
    }
    size_t done = 0;
    while (done < data_.size()) {
      const ssize_t n = write(file_.get(), data_.data() + done, data_.size() - done);
      if (n <= 0) return Unavailable("cannot write %s: %s", path_, ErrnoText(errno));
      done += static_cast<size_t>(n);
    }
    size_ += done;
    if (SteadyNow() - synced_ < std::chrono::milliseconds(100)) return OkStatus();
    synced_ = SteadyNow();
    if (fdatasync(file_.get()) == 0) return OkStatus();
    return Unavailable("cannot sync %s: %s", path_, ErrnoText(errno));
  }

 private:
  static constexpr size_t kFileBytes = size_t{256} << 20;
  const std::string path_;
  const std::string data_;
  Fd file_;
  size_t size_ = 0;
  Time synced_;
};

// Returns the quantile `share` (0 to 1) of `values`, which must not be empty.
double Quantile(std::vector<double> values, double share) {
  const auto at =
      values.begin() + static_cast<int64_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Writes checkpoints of a server one after the other until Stop or the destructor is called.
class Cutter {
 public:
  explicit Cutter(pserver::Pserver& server)
      : thread_([this, &server] {
          while (!stop_ && status_.ok()) {
            status_ = server.SaveCheckpoint().status();
            ++cuts_;
          }
        }) {}
  ~Cutter() { Stop().IgnoreError(); }
  Status Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  int cuts() const { return cuts_; }  // number of checkpoints; call it after Stop

 private:
  std::atomic<bool> stop_ = false;
  Status status_;
  int cuts_ = 0;
  std::thread thread_;
};

struct Training {
  double seconds = 0, rounds = 0;
  std::vector<double> pushes, pulls;  // seconds of each push, and of each pull
  double mb_per_s() const { return rounds * 2 * kAllBytes / seconds / kMegabyte; }
};

Status Train(DensePs& ps, const Values& gradients, double seconds, Training* all) {
  const auto round = [&]() -> Status {
    TD_RETURN_IF_ERROR(ps.PushAll(gradients));
    return ps.PullAll();
  };
  TD_RETURN_IF_ERROR(Repeat(seconds, round, &all->seconds, &all->rounds));
  const std::vector<double> pushes = ps.TakePushSeconds(), pulls = ps.TakePullSeconds();
  all->pushes.insert(all->pushes.end(), pushes.begin(), pushes.end());
  all->pulls.insert(all->pulls.end(), pulls.begin(), pulls.end());
  return OkStatus();
}

}  // namespace

StatusOr<Report> PsExactlyOnce(const RunOptions& options) {
  const Values gradients = Filled(0.5f);
  Report report;
  for (const int64_t numel : {kNumel, int64_t{256}}) {
    DensePs once(numel);
    TD_RETURN_IF_ERROR(once.Start({}, OverShm()));
    TD_ASSIGN_OR_RETURN(const auto rates, InTurns({&once}, gradients, options.seconds));
    const bool small = numel != kNumel;
    const double unit = small ? kVariables : kAllBytes / kMegabyte;
    report.Add(small ? "small_pushes_per_s" : "push_mb_per_s", rates[0].rounds_per_s * unit);
  }
  Folder folder;
  TD_RETURN_IF_ERROR(folder.Make());
  pserver::PserverOptions logging, ordering;
  logging.data_dir = folder.path() + "/logged";
  logging.durability = pserver::Durability::kLogged;
  ordering.data_dir = folder.path() + "/replayable";
  ordering.durability = pserver::Durability::kReplayable;
  DensePs logged, replayable, none;
  TD_RETURN_IF_ERROR(logged.Start(logging, OverShm()));
  TD_RETURN_IF_ERROR(replayable.Start(ordering, OverShm()));
  TD_RETURN_IF_ERROR(none.Start({}, OverShm()));
  TD_ASSIGN_OR_RETURN(const auto rates,
                      InTurns({&logged, &replayable, &none}, gradients, options.seconds));
  report.Add("logged_mb_per_s", rates[0].rounds_per_s * kAllBytes / kMegabyte);
  report.Add("replayable_mb_per_s", rates[1].rounds_per_s * kAllBytes / kMegabyte);
  report.Add("beside_them_mb_per_s", rates[2].rounds_per_s * kAllBytes / kMegabyte);
  return report;
}

StatusOr<Report> PsLogged(const RunOptions& options) {
  const Values gradients = Filled(0.5f);
  Folder folder;
  TD_RETURN_IF_ERROR(folder.Make());
  pserver::PserverOptions logging;
  logging.data_dir = folder.path() + "/logged";
  logging.durability = pserver::Durability::kLogged;
  DensePs logged;
  TD_RETURN_IF_ERROR(logged.Start(logging, OverShm()));
  SequentialWriter writer(folder.path() + "/written", kAllBytes / kVariables);
  const auto write_all = [&writer]() -> Status {
    for (int v = 0; v < kVariables; ++v) TD_RETURN_IF_ERROR(writer.Write());
    return OkStatus();
  };
  TD_ASSIGN_OR_RETURN(
      const auto rates,
      InTurns({[&] { return logged.PushAll(gradients); }, write_all}, options.seconds));
  Report report;
  report.Add("logged_mb_per_s", rates[0].rounds_per_s * kAllBytes / kMegabyte);
  report.Add("written_mb_per_s", rates[1].rounds_per_s * kAllBytes / kMegabyte);
  report.Add("logged_cpu_s_per_gb", rates[0].cpu_s / (kAllBytes * 1e-9));
  report.Add("written_cpu_s_per_gb", rates[1].cpu_s / (kAllBytes * 1e-9));
  return report;
}

StatusOr<Report> PsQuorum(const RunOptions& options) {
  const Values gradients = Filled(0.5f);
  Report report;
  for (const int64_t numel : {kNumel, int64_t{256}}) {
    Folder folder;
    TD_RETURN_IF_ERROR(folder.Make());
    pserver::PserverOptions logging;
    logging.job = "bench";
    logging.data_dir = folder.path() + "/logged";
    logging.durability = pserver::Durability::kLogged;
    pserver::PserverOptions primary = logging, standby = logging;
    primary.standbys = standby.standbys = 1;
    primary.rpc.listen = standby.rpc.listen = {.path = folder.path() + "/socket"};
    primary.data_dir = folder.path() + "/primary";
    standby.data_dir = folder.path() + "/standby";
    standby.member = 1;
    ps::PsOptions client = OverShm();
    client.job = logging.job;
    Metrics metrics;
    TD_ASSIGN_OR_RETURN(const auto follower, pserver::Standby::Start(standby, metrics));
    TD_RETURN_IF_ERROR(follower->Follow(primary.rpc.listen, /*incarnation=*/1));
    DensePs logged(numel), quorum(numel);
    TD_RETURN_IF_ERROR(logged.Start(logging, client));
    TD_RETURN_IF_ERROR(quorum.Start(primary, client));
    TD_ASSIGN_OR_RETURN(const auto rates, InTurns({&logged, &quorum}, gradients, options.seconds));
    const bool small = numel != kNumel;
    const double unit = small ? kVariables : kAllBytes / kMegabyte;
    report.Add(small ? "logged_small_pushes_per_s" : "logged_mb_per_s",
               rates[0].rounds_per_s * unit);
    report.Add(small ? "quorum_small_pushes_per_s" : "quorum_mb_per_s",
               rates[1].rounds_per_s * unit);
    report.Add(small ? "logged_small_cpu_us" : "logged_cpu_s_per_gb",
               rates[0].cpu_s / (small ? 1e-6 * kVariables : kAllBytes * 1e-9));
    report.Add(small ? "quorum_small_cpu_us" : "quorum_cpu_s_per_gb",
               rates[1].cpu_s / (small ? 1e-6 * kVariables : kAllBytes * 1e-9));
  }
  return report;
}

StatusOr<Report> PsSnapshot(const RunOptions& options) {
  const Values gradients = Filled(0.5f);
  Folder folder;
  TD_RETURN_IF_ERROR(folder.Make());
  pserver::PserverOptions served;
  served.data_dir = folder.path();
  DensePs ps;
  TD_RETURN_IF_ERROR(ps.Start(served, OverShm()));
  Training warm, alone, cut;
  TD_RETURN_IF_ERROR(Train(ps, gradients, options.seconds / kTurns, &warm));
  double cuts = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    TD_RETURN_IF_ERROR(Train(ps, gradients, options.seconds / kTurns, &alone));
    Cutter cutter(ps.server());
    TD_RETURN_IF_ERROR(Train(ps, gradients, options.seconds / kTurns, &cut));
    TD_RETURN_IF_ERROR(cutter.Stop());
    cuts += cutter.cuts();
  }
  Report report;
  report.Add("cut_mb_per_s", cut.mb_per_s());
  report.Add("alone_mb_per_s", alone.mb_per_s());
  report.Add("checkpoints_mb_per_s", cuts * kAllBytes / cut.seconds / kMegabyte);
  const auto p99 = [&](const char* name, const std::vector<double>& cut_seconds,
                       const std::vector<double>& alone_seconds) {
    const double with = Quantile(cut_seconds, 0.99), without = Quantile(alone_seconds, 0.99);
    report.Add(std::string(name) + "_p99_ms", 1e3 * with);
    report.Add(std::string(name) + "_p99_times", with / without);
  };
  p99("push", cut.pushes, alone.pushes);
  p99("pull", cut.pulls, alone.pulls);
  return report;
}

StatusOr<Report> PsRecovery(const RunOptions& options) {
  constexpr int64_t kVariablesOfShard = 512;
  constexpr size_t kRowsOfShard = size_t{6} << 20, kRowsOfPush = size_t{1} << 18;
  if (options.export_dir.empty()) return InvalidArgument("--export_dir: the server's data folder");
  pserver::PserverOptions served;
  served.data_dir = options.export_dir;
  PsPair ps;
  TD_RETURN_IF_ERROR(ps.Start(served, {}));
  std::vector<float> values(kNumel, 0.5f);
  std::vector<ps::PsVariable> variables;
  std::vector<ps::PsTensor> params;
  for (int64_t v = 0; v < kVariablesOfShard; ++v) {
    variables.push_back({"w" + std::to_string(v), Shape{kNumel}});
    params.push_back({variables.back().name, values.data(), kNumel});
  }
  const ps::PsTable table = {"emb", kHeight, kDim, ps::PsTable::InitKind::kUniform,
                             -0.1f, 0.1f,    1,    ""};
  TD_RETURN_IF_ERROR(
      ps.client->Configure(variables, ps::PsMode::kASync, {"sgd", {}}, {table}).status());
  TD_RETURN_IF_ERROR(ps.client->InitOrFetch(params).status());
  std::vector<int64_t> ids;
  for (size_t i = 0; i < kRowsOfShard; ++i) ids.push_back(IdOf(i));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const std::vector<float> ones(kRowsOfPush * kDim, 1.0f);
  uint64_t step = 0;
  for (size_t i = 0; i < ids.size(); i += kRowsOfPush, ++step) {
    const auto some = std::span(ids).subspan(i, std::min(kRowsOfPush, ids.size() - i));
    exec::CommDone done;
    ps.client->Push(step, kRate, {}, [&](const Status& s) { done.Complete(s); },
                    {{"emb", some, ones.data()}});
    TD_RETURN_IF_ERROR(done.Wait(Time::max()));
  }
  const Time start = SteadyNow();
  TD_ASSIGN_OR_RETURN(const auto saved, ps.server->SaveCheckpoint());
  Report report;
  report.Add("save_s", Seconds(SteadyNow() - start));
  report.Add("version", static_cast<double>(saved.version));
  report.Add("bytes", static_cast<double>(saved.bytes));
  return report;
}

}  // namespace tandem::bench
