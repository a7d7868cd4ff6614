#include "deploy/launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/base/files.h"
#include "common/base/stop_request.h"
#include "deploy/launch/job_record.h"
#include "deploy/launch/supervisor_child.h"

namespace tandem::deploy {
namespace {

constexpr int kPollMsMax = 1000;  // a lost SIGCHLD delays the job by at most a second
constexpr size_t kReportLines = 20;
constexpr auto kFlushMax = std::chrono::seconds(2);

sigset_t WatchedSignals(bool elastic) {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH}) sigaddset(&set, s);
  if (elastic) sigaddset(&set, SIGUSR1);
  return set;
}

// Whether the failure is only a consequence of another failure.
bool IsConsequence(const ExitState& exit) {
  return exit.signal == 0 && (exit.code == kExitLostPeer || exit.code == kExitUnavailable);
}

}  // namespace

Supervisor::Supervisor(const LaunchPlan& plan, Options options)
    : plan_(plan), options_(std::move(options)) {}
Supervisor::~Supervisor() = default;

StatusOr<int> Supervisor::Run() {
  const sigset_t watched = WatchedSignals(plan_.elastic());
  sigset_t before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  void (*const pipe_handler)(int) = signal(SIGPIPE, SIG_IGN);
  signals_.Reset(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));

  started_ = SteadyNow();
  const Status status = StartAll();
  int code = 0;
  if (status.ok()) {
    Loop();
    FlushOutput();
    code = Conclude();
  }
  children_.clear();

  signals_.Reset();
  signal(SIGPIPE, pipe_handler);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) return status;
  return code;
}

Status Supervisor::StartAll() {
  if (signals_.get() < 0)
    return ResourceExhausted("cannot create a signal descriptor: %s", ErrnoText(errno));
  if (!plan_.silent_fifo.empty()) TD_RETURN_IF_ERROR(rank_words_.Open(plan_.silent_fifo));
  if (plan_.elastic()) {
    std::vector<int> all;
    for (int rank = 0; rank < plan_.workers; ++rank) all.push_back(rank);
    TD_RETURN_IF_ERROR(PublishWorld(std::move(all)));
  }
  TD_RETURN_IF_ERROR(sockets_.Open(plan_));
  for (const ProcessPlan& p : plan_.processes) {
    const Status status = Annotate(Start(p), p.Name());
    if (status.code() == StatusCode::kNotFound) {
      return NotFound(
          "a program of the job is missing: %s [TD7001]; hint: build it with ./deploy/build.sh, or "
          "name another program with --%s_bin=FILE",
          std::string(status.message()), RoleName(p.role));
    }
    TD_RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

Status Supervisor::Start(const ProcessPlan& plan, bool again, bool member) {
  auto child = std::make_unique<Child>();
  child->plan = &plan;
  child->member = member;
  TD_ASSIGN_OR_RETURN(LogFile log, LogFile::Open(plan.log_file));
  child->log.emplace(std::move(log));
  SpawnRequest request;
  request.argv = plan.argv;
  request.env = options_.env;
  for (const auto& [name, value] : plan.env) request.env[name] = value;
  if (plan.role == Role::kPserver) sockets_.HandOver(plan.rank, request);
  if (again && plan_.ranks_return() && plan.role == Role::kTrainer) {
    request.env["TANDEM_RESTARTED"] = "1";
  }
  TD_RETURN_IF_ERROR(OpenOutput(*child, request));
  TD_ASSIGN_OR_RETURN(Process process, Process::Start(request));
  child->process.emplace(std::move(process));
  for (OutputChannel& channel : child->output) channel.CloseChildEnd();
  Note("started", plan.Name(), child->process->pid(), "");
  children_.push_back(std::move(child));
  return OkStatus();
}

void Supervisor::Note(const char* event, const std::string& process, int64_t pid,
                      const std::string& text) {
  const Status added = AddEvent(plan_.log_dir, {"", event, process, pid, text});
  if (!added.ok()) TellLost(added);
}

void Supervisor::TellLost(const Status& why) {
  if (!lost_.ok() || why.ok()) return;
  lost_ = why;
  std::fprintf(stderr, "%s: warning: %s\n", options_.name, LostText().c_str());
}

std::string Supervisor::LostText() const {
  return absl::StrFormat(
      "lines of the logs or events in %s are lost: %s [TD2117]; the job continues", plan_.log_dir,
      std::string(lost_.message()));
}

Status Supervisor::OpenOutput(Child& child, SpawnRequest& request) {
  request.stdout_fd = request.stderr_fd = child.log->fd();
  // The lowest rank on this machine reports for all.
  const bool first_trainer = child.plan->role == Role::kTrainer && child.member &&
                             std::none_of(children_.begin(), children_.end(), [&](const auto& c) {
                               return c->plan->role == Role::kTrainer &&
                                      c->plan->rank < child.plan->rank && c->process->running();
                             });
  // In an elastic job the reporting rank may change.
  const bool later = plan_.elastic() && child.plan->role == Role::kTrainer;
  if (options_.quiet || !(first_trainer || later)) return OkStatus();
  for (const int fd : {shown_stdout(), STDERR_FILENO}) {
    TD_ASSIGN_OR_RETURN(OutputChannel channel,
                        OutputChannel::Open(first_trainer ? fd : -1, &*child.log));
    child.output.push_back(std::move(channel));
  }
  request.stdout_fd = child.output[0].child_fd();
  request.stderr_fd = child.output[1].child_fd();
  return OkStatus();
}

void Supervisor::Loop() {
  while (AnyRunning(Role::kTrainer) || AnyRunning(Role::kPserver)) {
    WaitForEvents();
    TakeSignals();
    HandleRankReports();
    CollectEnded();
    Advance();
    for (const auto& child : children_) TellLost(child->log->lost());
  }
}

void Supervisor::WaitForEvents() {
  std::vector<pollfd> fds = {{signals_.get(), POLLIN, 0}, {rank_words_.fd(), POLLIN, 0}};
  std::vector<std::pair<OutputChannel*, bool>> owners;  // and whether the channel waits to write
  for (const auto& child : children_) {
    for (OutputChannel& channel : child->output) {
      const bool writing = channel.write_fd() >= 0;
      const int fd = writing ? channel.write_fd() : channel.read_fd();
      if (fd < 0) continue;
      fds.push_back({fd, static_cast<short>(writing ? POLLOUT : POLLIN), 0});
      owners.emplace_back(&channel, writing);
    }
  }
  int timeout_ms = kPollMsMax;
  if (kill_at_ != Time::max()) {
    timeout_ms =
        static_cast<int>(std::clamp<int64_t>(Millis(kill_at_ - SteadyNow()) + 1, 0, kPollMsMax));
  }
  if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (fds[fds.size() - owners.size() + i].revents == 0) continue;
    owners[i].second ? owners[i].first->OnWritable() : owners[i].first->OnReadable();
  }
}

void Supervisor::TakeSignals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    OnSignal(static_cast<int>(info.ssi_signo));
  }
}

void Supervisor::OnSignal(int signal) {
  if (signal == SIGWINCH) {
    for (const auto& child : children_) {
      for (OutputChannel& channel : child->output) channel.CopyWindowSize();
    }
    return;
  }
  if (signal == SIGCHLD) return;  // CollectEnded checks every child
  if (signal == SIGUSR1) return FillWorld();
  if (stop_signal_ != 0) {
    if (SteadyNow() - stopped_at_ < kSameStopRequest) return;
    std::fprintf(stderr, "%s: second %s: killing the job\n", options_.name,
                 SignalName(signal).c_str());
    kill_now_ = true;
    kill_at_ = SteadyNow();
    return;
  }
  stop_signal_ = signal;
  stopped_at_ = SteadyNow();
  Note("stopping", "", 0, SignalName(signal));
  std::fprintf(stderr, "%s: %s: stopping the job; a second signal kills it\n", options_.name,
               SignalName(signal).c_str());
  StopTrainers(signal);
}

void Supervisor::CollectEnded() {
  std::vector<Child*> ended;
  for (const auto& child : children_) {
    if (child->seen_end || !child->process->Poll()) continue;
    child->seen_end = true;
    for (OutputChannel& channel : child->output) channel.Drain();
    if (child->output.empty()) child->log->LookForRoom();
    Note("ended", child->plan->Name(), child->process->pid(), child->process->Poll()->Text());
    ended.push_back(child.get());
  }
  if (phase_ == Phase::kRunning && stop_signal_ == 0) {
    LoseRanks(ended);
    LetGo(ended);
    Restart(ended);
    LoseRanks(ended);  // handles those that were not restarted
    Blame(ended);
  }
  // A pserver that was requested to stop, and exits with a code other than 0, lost data.
  if (phase_ == Phase::kStoppingPservers && !failure_ && stop_signal_ == 0) Blame(ended);
}

// Whether another program stopped the pserver while trainers run; tandemrun stops pservers last.
bool Supervisor::WasStopped(Child& child) const {
  return child.plan->role == Role::kPserver && child.process->Poll()->ok() &&
         phase_ == Phase::kRunning && AnyRunning(Role::kTrainer);
}

bool Supervisor::StorageFailed(Child& child) const {
  const ExitState& exit = *child.process->Poll();
  return child.plan->role == Role::kPserver && exit.signal == 0 && exit.code == kExitStorage;
}

void Supervisor::LetGo(std::vector<Child*>& ended) {
  if (phase_ != Phase::kRunning || !AnyRunning(Role::kTrainer)) return;
  std::erase_if(ended, [this](Child* child) {
    if (child->plan->role != Role::kPserver) return false;  // a drained pserver may also be killed
    if (!ReadPserverChanges(plan_.log_dir).drained.contains(child->plan->rank)) return false;
    Note("left", child->plan->Name(), child->process->pid(), "drained");
    sockets_.Release(child->plan->rank);
    return true;
  });
}

void Supervisor::Restart(std::vector<Child*>& ended) {
  for (size_t i = 0; i < ended.size();) {
    Child* const old = ended[i];
    const bool lost = old->process->Poll()->signal != 0 || WasStopped(*old) || StorageFailed(*old);
    if (!lost || !MayRestart(*old->plan)) {
      if (old->plan->role == Role::kPserver) sockets_.Release(old->plan->rank);
      ++i;
      continue;
    }
    ended.erase(ended.begin() + static_cast<ptrdiff_t>(i));
    StartAgain(*old, /*member=*/true);
  }
}

bool Supervisor::MayRestart(const ProcessPlan& plan) const {
  return plan.can_return && restarts_ < options_.max_restarts && !Over();
}

void Supervisor::StartAgain(Child& old, bool member) {
  const ProcessPlan& plan = *old.plan;
  const ExitState exit = *old.process->Poll();
  ++restarts_;
  Note("restarted", plan.Name(), 0, absl::StrFormat("%d of %d", restarts_, options_.max_restarts));
  const std::string how = StorageFailed(old) ? "ended by a storage error"
                          : exit.signal == 0 ? "stopped on request"
                                             : "killed by " + SignalName(exit.signal);
  const char* caution = plan.forgets ? "; with --durability=none it restores only its last "
                                       "checkpoint, and later pushes are lost"
                                     : "";
  std::fprintf(stderr, "%s: %s was %s; restarting it (restart %d of %d)%s\n", options_.name,
               plan.Name().c_str(), how.c_str(), restarts_, options_.max_restarts, caution);
  Replace(old, member);
}

void Supervisor::Replace(const Child& old, bool member) {
  const ProcessPlan& plan = *old.plan;
  std::erase_if(children_, [&old](const auto& child) { return child.get() == &old; });
  const Status status = Start(plan, /*again=*/true, member);
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s: %s\n", options_.name, plan.Name().c_str(),
               ToString(status).c_str());
}

bool Supervisor::Over() const {
  return plan_.ranks_return() && std::any_of(children_.begin(), children_.end(), [](const auto& c) {
           return !c->process->running() && c->process->Poll()->ok();
         });
}

void Supervisor::Blame(const std::vector<Child*>& ended) {
  if (failure_) return;
  Child* culprit = nullptr;
  for (Child* child : ended) {
    const ExitState& exit = *child->process->Poll();
    if (exit.ok() && !WasStopped(*child)) continue;
    // Processes that ended between two checks count as simultaneous: the cause takes precedence
    // over its consequences.
    if (culprit == nullptr || (IsConsequence(*culprit->process->Poll()) && !IsConsequence(exit))) {
      culprit = child;
    }
  }
  if (culprit == nullptr) return;
  failure_ = FailureOf(*culprit);
}

void Supervisor::BlameSilent() {
  if (!failure_ || phase_ != Phase::kStoppingTrainers || kill_now_) return;
  if (failure_->silent_s > 0 || failure_->exit.code != kExitLostPeer) return;
  for (const auto& child : children_) {
    if (child->plan->role != Role::kTrainer || !child->process->running()) continue;
    child->silent = std::chrono::seconds(options_.grace_s);
    failure_ = FailureOf(*child);
    return;
  }
}

Failure Supervisor::FailureOf(Child& child) const {
  Failure failure;
  failure.role = child.plan->Kind();
  failure.rank = child.plan->rank;
  failure.host = HostName();
  failure.pid = child.process->pid();
  const auto exit = child.process->Poll();
  failure.exit = exit ? *exit : ExitState{.signal = SIGKILL};  // SIGKILL is still in progress
  failure.early = failure.exit.ok();
  failure.stuck = child.stuck;
  failure.silent_s = Seconds(child.silent);
  failure.after_s = Seconds(SteadyNow() - started_);
  failure.time = WallClockText();
  failure.log_file = child.plan->log_file;
  failure.last_lines = LastLines(failure.log_file, kReportLines);
  return failure;
}

void Supervisor::Advance() {
  if (phase_ == Phase::kRunning) {
    const bool trainers_here = std::any_of(children_.begin(), children_.end(), [](const auto& c) {
      return c->plan->role == Role::kTrainer;
    });
    if (failure_) {
      StopTrainers(SIGTERM);
    } else if (trainers_here && !AnyRunning(Role::kTrainer)) {
      if (!plan_.remote_workers) return StopPservers();
      if (AnyRunning(Role::kPserver) && !std::exchange(told_remote_, true)) {
        std::fprintf(stderr,
                     "tandemrun: the trainers of this host have ended; its pservers continue for "
                     "trainers of other hosts (stop them with Ctrl-C)\n");
      }
    }
  }
  if (phase_ == Phase::kStoppingTrainers && !AnyRunning(Role::kTrainer)) StopPservers();
  if (SteadyNow() < kill_at_) return;
  kill_at_ = Time::max();
  BlameSilent();
  SignalRole(Role::kTrainer, SIGKILL);
  if (kill_now_ || phase_ == Phase::kStoppingPservers) SignalRole(Role::kPserver, SIGKILL);
}

void Supervisor::StopTrainers(int signal) {
  phase_ = Phase::kStoppingTrainers;
  SignalRole(Role::kTrainer, signal);
  kill_at_ = SteadyNow() + std::chrono::seconds(options_.grace_s);
}

void Supervisor::StopPservers() {
  phase_ = Phase::kStoppingPservers;
  SignalRole(Role::kPserver, SIGTERM);
  kill_at_ = SteadyNow() + std::chrono::seconds(options_.grace_s);
}

void Supervisor::SignalRole(Role role, int signal) {
  for (const auto& child : children_) {
    if (child->plan->role != role || !child->process->running()) continue;
    child->stuck = child->stuck || signal == SIGKILL;
    child->process->Signal(signal);
  }
}

bool Supervisor::AnyRunning(Role role) const {
  return std::any_of(children_.begin(), children_.end(), [role](const auto& c) {
    return c->plan->role == role && c->process->running();
  });
}

void Supervisor::FlushOutput() {
  const Time deadline = SteadyNow() + kFlushMax;
  for (const auto& child : children_) {
    for (OutputChannel& channel : child->output) {
      while (channel.write_fd() >= 0 && SteadyNow() < deadline) {
        pollfd fd = {channel.write_fd(), POLLOUT, 0};
        if (poll(&fd, 1, 100) > 0) channel.OnWritable();
      }
    }
  }
}

int Supervisor::Conclude() {
  // Repeated, because the first warning is far above by now.
  if (!lost_.ok()) std::fprintf(stderr, "%s: warning: %s\n", options_.name, LostText().c_str());
  if (!failure_) {
    Note("done", "", 0, stop_signal_ == 0 ? "" : "stopped by " + SignalName(stop_signal_));
    return stop_signal_ == 0 ? 0 : 128 + stop_signal_;
  }
  Note("failed", absl::StrFormat("%s %d", failure_->role, failure_->rank), failure_->pid,
       failure_->exit.Text());
  std::vector<std::string> others;
  for (const auto& child : children_) {
    if (child->process->pid() == failure_->pid) continue;
    others.push_back(child->plan->Name() + ": " + child->process->Poll()->Text());
  }
  const std::string error_file = plan_.log_dir + "/error.json";
  std::fputs(FailureText(plan_.job_name, *failure_, others, error_file).c_str(), stderr);
  const Status written = WriteErrorFile(error_file, plan_.job_name, *failure_, others);
  if (!written.ok()) std::fprintf(stderr, "tandemrun: %s\n", ToString(written).c_str());
  return JobExitCode(*failure_);
}

}  // namespace tandem::deploy
