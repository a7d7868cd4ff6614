#include "deploy/cli/demo/demo_kill.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "deploy/cli/job/job_access.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr auto kAnswerMax = std::chrono::seconds(1);

// Returns the number directly after the last occurrence of `text` in a file. -1: the file does not
// contain `text` with a number.
int64_t LastNumberAfter(const std::string& path, const std::string& text) {
  TD_REQUIRE(!text.empty());
  std::ifstream file(path);
  int64_t number = -1;
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.rfind(text);
    if (at == std::string::npos) continue;
    std::from_chars(line.data() + at + text.size(), line.data() + line.size(), number);
  }
  return number;
}

std::string LogOf(const std::string& log_dir, int server) {
  return log_dir + "/serverlog." + std::to_string(server);
}

StatusOr<int64_t> PidOf(const std::string& log_dir, int server) {
  TD_ASSIGN_OR_RETURN(const std::vector<JobEvent> events, ReadEvents(log_dir));
  const std::string name = "pserver " + std::to_string(server);
  int64_t pid = 0;
  for (const JobEvent& e : events) {
    if (e.process == name && e.event == "started") pid = e.pid;
    if (e.process == name && e.event == "ended") pid = 0;
  }
  if (pid == 0) return FailedPrecondition("%s is not running", name);
  return pid;
}

}  // namespace

struct PserverKiller::Impl {
  const Options options;
  Mutex mu;
  CondVar over_changed;
  bool over TD_GUARDED_BY(mu) = false;
  // Report of the thread; other threads may read it after Finish() has joined the thread.
  KillReport report;
  std::thread thread;

  explicit Impl(Options o) : options(std::move(o)) {}

  // Waits for kLook, or until the job has ended. Returns false if the job has ended.
  bool Pause() {
    MutexLock lock(mu);
    if (!over) over_changed.WaitUntil(mu, SteadyNow() + kLook);
    return !over;
  }

  StatusOr<JobAccess> Find() const {
    ParsedArgs args;
    args.positional = {options.log_dir};
    TD_ASSIGN_OR_RETURN(JobAccess access, FindJob(args, {rpc::PeerRole::kAdmin}));
    access.timeout = kAnswerMax;
    return access;
  }

  // Returns the share of the job's steps that the job's first trainer has done, from 0 to 1.
  static StatusOr<double> ProgressOf(const JobAccess& access) {
    for (const PageAddress& page : access.pages) {
      if (page.role != "trainer") continue;
      TD_ASSIGN_OR_RETURN(const Page read, ReadPage(page.endpoint, kAnswerMax));
      return read.progress;
    }
    return FailedPrecondition(
        "the demo cannot read the progress of the job, because its trainers have no status page");
  }

  // Waits until the share Options::at_share of the job is done. Returns the access to the job. If
  // the job ends earlier, returns an error with the cause.
  StatusOr<JobAccess> AwaitMiddle() {
    Status last = Unavailable("the job did not complete a step in time");
    while (Pause()) {
      StatusOr<JobAccess> access = Find();
      if (access.ok()) {
        const StatusOr<double> progress = ProgressOf(*access);
        if (progress.ok() && *progress >= options.at_share) return access;
        last = progress.ok() ? FailedPrecondition("the job ended before the demo killed a process")
                             : progress.status();
      } else {
        last = access.status();
      }
    }
    return last;
  }

  Status Kill() {
    TD_ASSIGN_OR_RETURN(const JobAccess access, AwaitMiddle());
    StatusReply before, after;
    const auto server = static_cast<size_t>(options.server);
    TD_RETURN_IF_ERROR(ServerAccess(access, server).GetStatus(&before));
    TD_ASSIGN_OR_RETURN(const int64_t pid, PidOf(options.log_dir, options.server));
    report.version_before = static_cast<int64_t>(before.version());
    const Time start = SteadyNow();
    if (kill(static_cast<pid_t>(pid), SIGKILL) != 0) {
      return FailedPrecondition("cannot kill pserver %d (pid %d): %s", options.server, pid,
                                ErrnoText(errno));
    }
    report.killed = true;
    options.say(absl::StrFormat("! pserver %d (pid %d) killed with kill -9 at version %d",
                                options.server, pid, report.version_before));
    while (Pause()) {
      const Status status = ServerAccess(access, server).GetStatus(&after);
      if (!status.ok() || after.server_incarnation() == before.server_incarnation() ||
          !after.initialised()) {
        continue;
      }
      report.back_s = Seconds(SteadyNow() - start);
      report.version_back =
          LastNumberAfter(LogOf(options.log_dir, options.server), " restored version ");
      options.say(absl::StrFormat(
          "! recovered in %.1f s at version %d: %d updates lost", report.back_s,
          report.version_back, std::max<int64_t>(0, report.version_before - report.version_back)));
      return OkStatus();
    }
    return Unavailable("pserver %d did not restart in time", options.server);
  }
};

PserverKiller::PserverKiller(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {
  TD_REQUIRE(impl_->options.server >= 0 && impl_->options.say);
  TD_REQUIRE(impl_->options.at_share >= 0 && impl_->options.at_share < 1);
  impl_->report.server = impl_->options.server;
  // Blocks all signals in the new thread, so that the thread that supervises the job receives them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  impl_->thread = std::thread([impl = impl_.get()] {
    const Status status = impl->Kill();
    if (!status.ok()) impl->report.problem = std::string(status.message());
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PserverKiller::~PserverKiller() { Finish(); }

KillReport PserverKiller::Finish() {
  {
    MutexLock lock(impl_->mu);
    impl_->over = true;
    impl_->over_changed.NotifyAll();
  }
  if (impl_->thread.joinable()) impl_->thread.join();
  return impl_->report;
}

StatusOr<UpdateCount> CountUpdates(const std::string& log_dir, int servers, int64_t steps) {
  TD_REQUIRE(servers > 0);
  UpdateCount count{.wanted = steps};
  for (int i = 0; i < servers; ++i) {
    const int64_t version = LastNumberAfter(LogOf(log_dir, i), " ends at version ");
    const int64_t repeated = LastNumberAfter(LogOf(log_dir, i), "repeated pushes: ");
    if (version < 0 || repeated < 0) {
      return DataLoss(
          "log %s lacks the last version of the server, or the number of its repeated pushes",
          LogOf(log_dir, i));
    }
    count.lost += std::max<int64_t>(0, steps - version);
    count.doubled += std::max<int64_t>(0, version - steps);
    count.repeated += repeated;
  }
  return count;
}

}  // namespace tandem::deploy
