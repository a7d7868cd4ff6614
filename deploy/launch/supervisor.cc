#include "deploy/launch/supervisor.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/launcher/launcher_lease.h"
#include "common/os/host_limits.h"
#include "deploy/launch/failure_report.h"
#include "deploy/launch/job_record.h"

namespace tandem::deploy {
namespace {

// Maximum wait of poll() in ms. If a SIGCHLD is lost, the job is delayed by at most this time.
constexpr int kPollMsMax = 1000;
constexpr auto kFlushMax = std::chrono::seconds(2);

sigset_t WatchedSignals(bool elastic) {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH}) sigaddset(&set, s);
  if (elastic) sigaddset(&set, SIGUSR1);
  return set;
}

// Returns the number of replicas of a trainer. Each replica is a separate caller of the pservers.
int CallersPerWorker(const LaunchPlan& plan) {
  return std::max(1, plan.trainers / std::max(1, plan.workers));
}

// Time for which a lost peer is not taken for the cause of a failure on several hosts. The host of
// the cause reports it within this time.
constexpr Duration kPatience = std::chrono::seconds(2);
// Number of processes in a report whose last lines the report has.
constexpr size_t kEndsWithLines = 16;
constexpr uint32_t kTermsSkippedMax = 1 << 20;
constexpr Duration kRenewEvery = std::chrono::milliseconds(250);
constexpr Duration kLeaveMax = std::chrono::seconds(2);
constexpr Duration kFirstOrderMax = std::chrono::seconds(10);

JobDirector::Settings DirectorSettings(const LaunchPlan& plan, int max_restarts, bool alone,
                                       Duration host_timeout) {
  JobDirector::Settings settings;
  settings.host_of = plan.hosts.workers;
  settings.pserver_hosts = plan.hosts.pservers;
  settings.members = plan.hosts.members;
  settings.group.quorum = plan.quorum;
  // A host whose tandemrun is silent for less than the host timeout is not lost, and its members
  // are not killed.
  const int silent_s = alone ? 0 : static_cast<int>(Seconds(host_timeout)) + 1;
  settings.group.unanswered_max = std::max(ServerGroup::kUnansweredMax, silent_s);
  settings.group.terms_skipped = std::random_device()() % kTermsSkippedMax;
  settings.callers_per_worker = CallersPerWorker(plan);
  settings.ranks_least = plan.ranks_least;
  settings.max_restarts = max_restarts;
  settings.ranks_return = plan.ranks_return();
  if (!alone) settings.patience = kPatience;
  return settings;
}

}  // namespace

Supervisor::Supervisor(const LaunchPlan& plan, Options options, std::unique_ptr<HostGroup> group)
    : plan_(plan),
      options_(std::move(options)),
      group_(group != nullptr ? std::move(group) : std::make_unique<HostGroup>()),
      started_(SteadyNow()),
      journal_(plan.log_dir, options_.name),
      scale_(plan_),
      processes_(CallersPerWorker(plan)),
      members_(processes_),
      pserver_scaling_(scale_, processes_, sockets_, journal_,
                       [this](const ProcessPlan& p) { return Start(p); }),
      stop_(std::chrono::seconds(options_.grace_s)),
      world_(plan.world_file, plan.ranks_least),
      failure_(started_) {}
Supervisor::~Supervisor() = default;

StatusOr<int> Supervisor::Run() {
  TD_REQUIRE(processes_.all().empty());
  const sigset_t watched = WatchedSignals(plan_.elastic());
  sigset_t before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  void (*const pipe_handler)(int) = signal(SIGPIPE, SIG_IGN);
  signals_.Reset(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));

  const Status status = StartAll();
  int code = 0;
  if (status.ok()) {
    Loop();
    group_->Leave(kLeaveMax);
    processes_.FlushOutput(kFlushMax);
    if (not_started_.ok() || failure_.known()) code = Conclude();
  }
  processes_.Clear();
  if (!failure_.known() && !not_started_.ok()) {
    journal_.Note("failed", "", 0, std::string(not_started_.message()));
  }

  signals_.Reset();
  signal(SIGPIPE, pipe_handler);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) return status;
  if (!failure_.known() && !not_started_.ok()) return not_started_;
  return code;
}

bool Supervisor::CanJoinAgain() const {
  return group_->lost_leader() && stop_.signal() == 0 && not_started_.ok() && plan_.joins_again;
}

Status Supervisor::StartAll() {
  if (signals_.get() < 0) return SystemError("cannot create a signal descriptor", errno);
  TD_ASSIGN_OR_RETURN(scale_metrics_,
                      ScaleMetrics::Serve(options_.metrics_listen, plan_.insecure_allow_network));
  if (!plan_.silent_fifo.empty()) TD_RETURN_IF_ERROR(reports_.Open(plan_.silent_fifo));
  RenewLeaseIfDue();
  group_->Begin(
      DirectorSettings(plan_, options_.max_restarts, group_->alone(), options_.host_timeout));
  if (plan_.elastic()) TD_RETURN_IF_ERROR(OpenWorld());
  TD_RETURN_IF_ERROR(sockets_.Open(plan_));
  for (const ProcessPlan& p : plan_.processes) {
    const bool replaces = group_->layout().replaces;
    const Status status = Annotate(Start(p, replaces, !(replaces && plan_.elastic())), p.Name());
    if (status.code() == StatusCode::kNotFound) {
      return NotFound(
          "a program of the job is missing: %s [TD7001]; hint: build the program with "
          "./deploy/build.sh, or name another program with --%s_bin=FILE",
          std::string(status.message()), p.role == Role::kTrainer ? "trainer" : "pserver");
    }
    TD_RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

// Writes the first world that the ranks of this host see.
Status Supervisor::OpenWorld() {
  if (!group_->layout().replaces) {
    std::vector<int> all(static_cast<size_t>(plan_.workers));
    std::iota(all.begin(), all.end(), 0);
    return world_.Publish(JobDirector::kFirstWorld, std::move(all), /*over=*/false);
  }
  // The leading host sends the present world to a host that replaces another one.
  const Time deadline = SteadyNow() + kFirstOrderMax;
  while (world_.version() == 0 && !failure_.known() && SteadyNow() < deadline) {
    std::vector<pollfd> fds = group_->Sockets();
    poll(fds.data(), fds.size(), kPollMsMax);
    CarryOutOrders();
  }
  if (world_.version() > 0) return OkStatus();
  return DeadlineExceeded("the leading host did not send the members of the job [TD3016]");
}

Status Supervisor::Start(const ProcessPlan& plan, bool again, bool member) {
  TD_ASSIGN_OR_RETURN(std::unique_ptr<JobProcess> process, JobProcess::Open(plan));
  process->member = member;
  SpawnRequest request;
  request.argv = plan.argv;
  request.env = options_.env;
  for (const auto& [name, value] : plan.env) request.env[name] = value;
  if (plan.role == Role::kPserver) sockets_.HandOver(plan.rank, request);
  if (again && plan_.ranks_return() && plan.role == Role::kTrainer) {
    request.env["TANDEM_RESTARTED"] = "1";
  }
  TD_RETURN_IF_ERROR(OpenOutput(*process, request));
  TD_ASSIGN_OR_RETURN(const Fd member_end, members_.Open(*process, request));
  TD_RETURN_IF_ERROR(process->Start(request));
  NoteOnAllHosts("started", *process, "");
  processes_.Add(std::move(process));
  if (plan.member >= 0) {
    ReportMembers({{MemberNews::Kind::kStarted, plan.rank, plan.member, {}}});
  }
  return OkStatus();
}

Status Supervisor::OpenOutput(JobProcess& process, SpawnRequest& request) {
  request.stdout_fd = request.stderr_fd = process.log->fd();
  const auto& all = processes_.all();
  // Only the trainer with the lowest rank on this machine shows its output.
  const bool first_trainer =
      process.is(Role::kTrainer) && process.member &&
      std::none_of(all.begin(), all.end(), [&](const auto& p) {
        return p->is(Role::kTrainer) && p->plan->rank < process.plan->rank && p->running();
      });
  // In an elastic job every trainer gets a channel, because its output may be shown later.
  const bool later = plan_.elastic() && process.is(Role::kTrainer);
  if (options_.quiet || !(first_trainer || later)) return OkStatus();
  for (const int fd : {shown_stdout(), STDERR_FILENO}) {
    TD_ASSIGN_OR_RETURN(OutputChannel channel,
                        OutputChannel::Open(first_trainer ? fd : -1, &*process.log));
    process.output.push_back(std::move(channel));
  }
  request.stdout_fd = process.output[0].child_fd();
  request.stderr_fd = process.output[1].child_fd();
  return OkStatus();
}

void Supervisor::Loop() {
  UpdateScale();
  while (processes_.AnyRunning(Role::kTrainer) || processes_.AnyRunning(Role::kPserver) ||
         processes_.AnyRunning(Role::kReplica) ||
         (!group_->alone() && stop_.phase() != StopSequence::Phase::kStoppingPservers)) {
    WaitForEvents();
    RenewLeaseIfDue();
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      OnSignal(static_cast<int>(info.ssi_signo));
    }
    if (!stop_.stopping()) ReportMembers(members_.Receive());
    HandleReports();
    OnEnded(processes_.CollectEnded());
    CarryOutOrders();
    StartReplicas();
    Advance();
    UpdateScale();
    for (const auto& process : processes_.all()) journal_.NoteLoss(process->log->lost());
  }
}

void Supervisor::RenewLeaseIfDue() {
  const Time now = SteadyNow();
  if (group_->alone() || now < lease_renewed_at_ + kRenewEvery) return;
  lease_renewed_at_ = now;
  journal_.NoteLoss(RenewLease(LeaseFile(plan_), {now, options_.host_timeout}));
}

void Supervisor::WaitForEvents() {
  int timeout_ms = kPollMsMax;
  if (const Time next = std::min(stop_.kill_at(), group_->wakeup()); next != Time::max()) {
    timeout_ms =
        static_cast<int>(std::clamp<int64_t>(Millis(next - SteadyNow()) + 1, 0, kPollMsMax));
  }
  // While a job stops, the supervisor does not read the reports of pservers' members.
  std::vector<pollfd> fds;
  if (!stop_.stopping()) fds = members_.Sockets();
  for (const pollfd& socket : group_->Sockets()) fds.push_back(socket);
  fds.push_back({signals_.get(), POLLIN, 0});
  fds.push_back({reports_.fd(), POLLIN, 0});
  processes_.Poll(std::move(fds), timeout_ms);
}

void Supervisor::OnSignal(int signal) {
  if (signal == SIGWINCH) return processes_.CopyWindowSize();
  if (signal == SIGCHLD) return;  // CollectEnded checks every process for its end
  if (signal == SIGUSR1) {
    scale_.SetDesiredWorkers(plan_.workers);
    return group_->Report({.kind = JobReport::Kind::kStartLost});
  }
  // A scheduler that moves one host of an elastic job sends SIGTERM to this host. The leading host
  // cannot leave.
  const bool leaves = signal == SIGTERM && plan_.elastic() && !group_->leads();
  if (leaves && !std::exchange(asked_to_leave_, true)) {
    return group_->Report({.kind = JobReport::Kind::kLeave, .number = signal});
  }
  group_->Report({.kind = JobReport::Kind::kSignal, .number = signal});
  // A scheduler sends its signal to each host. The first signal to this host repeats the one that
  // has stopped the job.
  const bool first = !std::exchange(signalled_, true);
  if (!first || stop_.signal() == 0) Stop(signal);
}

void Supervisor::Leave(int signal) {
  journal_.Note("stopping", "", 0, SignalName(signal));
  journal_.Say(absl::StrFormat("%s: this host leaves the job", SignalName(signal)));
  stop_.TakeSignal(signal, SteadyNow());
  // The other ranks have all state of these trainers, which are not in the world any more.
  StopTrainers(SIGKILL);
  finished_ = true;
}

void Supervisor::Stop(int signal) {
  switch (stop_.TakeSignal(signal, SteadyNow())) {
    case StopSequence::Request::kRepeated:
      return;
    case StopSequence::Request::kKill:
      return journal_.Say(absl::StrFormat("second %s: killing the job", SignalName(signal)));
    case StopSequence::Request::kStop:
      journal_.Note("stopping", "", 0, SignalName(signal));
      journal_.Say(
          absl::StrFormat("%s: stopping the job; a second signal kills it", SignalName(signal)));
      StopTrainers(signal);
  }
}

// ---- Reports of the processes -------------------------------------------------------------------

void Supervisor::HandleReports() {
  const RankReports reports = reports_.Read();
  for (const NamedProcess& name : reports.here) {
    if (JobProcess* const process = processes_.Find(name)) process->here = true;
  }
  for (const int rank : reports.ready) {
    const JobProcess* const process = processes_.Find({"trainer", rank});
    if (process == nullptr || process->member) continue;
    group_->Report({.kind = JobReport::Kind::kReady, .number = rank});
  }
  for (const ProcessWait& wait : reports.waits) OnWait(wait);
  for (const int rank : reports.promoted) {
    group_->Report({.kind = JobReport::Kind::kPromote, .number = rank});
  }
  for (const ScaleRequest& request : reports.scale) Scale(request);
}

void Supervisor::OnWait(const ProcessWait& wait) {
  if (stop_.stopping() || failure_.known()) return;
  const JobProcess* const process = processes_.Find(wait.whom);
  // The director knows the state of the members of a pserver, and the processes of other hosts.
  if (process != nullptr && process->plan->member < 0) return JudgeWait(wait);
  group_->Report({.kind = JobReport::Kind::kWait, .wait = wait});
}

void Supervisor::JudgeWait(const ProcessWait& wait) {
  if (stop_.stopping() || failure_.known()) return;
  JobProcess* const process = processes_.Find(wait.whom);
  if (process == nullptr) return;
  const WaitVerdict verdict = process->Judge(wait, SteadyNow());
  if (verdict == WaitVerdict::kIgnore) return;
  const std::string name = process->plan->Name();
  if (verdict == WaitVerdict::kWarn) {
    journal_.Say(absl::StrFormat(
        "%s is waiting for %s, which %s (%.1f s of %.1f s)", processes_.NameOf(wait.who), name,
        process->here ? "does not reply" : "has not joined", Seconds(wait.waited),
        Seconds(process->here ? wait.limit : wait.start_limit)));
    return;
  }
  const std::string text = absl::StrFormat("%s has waited for it for %.1f s",
                                           processes_.NameOf(wait.who), Seconds(wait.waited));
  journal_.Say(absl::StrFormat("%s does not reply (%s): killing it", name, text));
  NoteOnAllHosts("silent", *process, text);
  process->unresponsive = wait.waited;
  process->process->Signal(SIGKILL);
  JobReport report{.kind = JobReport::Kind::kUnresponsive};
  report.ended.push_back(EndOf(*process));
  group_->Report(report);
}

void Supervisor::ReportMembers(const std::vector<MemberNews>& news) {
  for (const MemberNews& one : news) {
    group_->Report({.kind = JobReport::Kind::kMember, .member = one});
  }
}

void Supervisor::OnPrimary(const JobOrder& order) {
  JobProcess* const process = processes_.FindRunning(order.process);
  if (process == nullptr) return;
  process->standby = false;
  // The times for which trainers have waited until now were waits for the previous primary. They do
  // not count as waits for this process, which is considered to start now.
  process->started = SteadyNow();
  process->here = true;
  NoteOnAllHosts("promoted", *process, order.text);
}

void Supervisor::Kill(const JobOrder& order) {
  JobProcess* const process = processes_.FindRunning(order.process);
  if (stop_.stopping() || process == nullptr || process->stuck) return;
  const bool silent = order.event == "silent";
  const std::string& name = order.process;
  journal_.Say(
      silent ? absl::StrFormat("%s does not reply (%s): killing it", name, order.text)
             : absl::StrFormat("%s: killing %s, so that a standby replaces it", order.text, name));
  NoteOnAllHosts(order.event.c_str(), *process, order.text);
  if (silent) process->unresponsive = std::chrono::seconds(order.number);
  process->Signal(SIGKILL);
}

// ---- Ended processes ----------------------------------------------------------------------------

void Supervisor::OnEnded(std::vector<JobProcess*> ended) {
  for (const JobProcess* process : ended) {
    NoteOnAllHosts("ended", *process, process->exit().Text());
  }
  HandleReplicas(ended);
  if (!stop_.stopping()) ReleaseDrained(ended);
  // A pserver that exits with a code other than 0 after its stop was requested has lost data. A
  // standby that does so is no failure of the job, because its primary has the same data.
  if (stop_.phase() == StopSequence::Phase::kStoppingPservers && stop_.signal() == 0) {
    std::vector<JobProcess*> primaries = ended;
    std::erase_if(primaries, [](const JobProcess* process) { return process->standby; });
    if (not_started_.ok()) BlameOneOf(primaries);
  }
  // On several hosts the director also counts processes that end while the job stops.
  if (!ended.empty() && (!stop_.stopping() || !group_->alone())) {
    JobReport report{.kind = JobReport::Kind::kEnded};
    std::vector<const ProcessPlan*> plans;
    for (JobProcess* const process : ended) {
      report.ended.push_back(EndOf(*process));
      if (report.ended.size() > kEndsWithLines) report.ended.back().failure.last_lines.clear();
      plans.push_back(process->plan);
    }
    group_->Report(report);
    ended.clear();  // an order may replace these processes
    CarryOutOrders();
    for (const ProcessPlan* const plan : plans) {
      // On several hosts an order to restart the pserver may follow.
      const bool stays = !group_->alone() && plan->can_return && options_.max_restarts > 0;
      if (plan->role == Role::kPserver && !stays && processes_.FindEnded(plan->Name()) != nullptr) {
        sockets_.Release(plan->rank);
      }
    }
  }
}

bool Supervisor::WasStopped(const JobProcess& process) const {
  return process.is(Role::kPserver) && process.exit().ok() && stop_.running() && TrainersRun();
}

ProcessEnd Supervisor::EndOf(JobProcess& process) const {
  ProcessEnd end{.name = process.plan->Name(), .can_return = process.plan->can_return};
  if (process.is(Role::kTrainer)) end.rank = process.plan->rank;
  if (process.plan->member >= 0) {
    end.server = process.plan->rank;
    end.server_member = process.plan->member;
  }
  if (process.running()) {  // it hangs, and was killed
    end.killed = end.lost = end.failed = true;
  } else {
    const ExitState exit = process.exit();
    end.done = process.is(Role::kTrainer) && exit.ok();
    end.killed = exit.signal != 0;
    end.lost = end.killed || WasStopped(process) || process.StorageFailed();
    end.failed = !exit.ok() || WasStopped(process);
  }
  if (end.failed) end.failure = failure_.Describe(process);
  return end;
}

bool Supervisor::IsDrained(const JobProcess& process) const {
  return process.is(Role::kPserver) &&
         ReadPserverChanges(plan_.log_dir).drained.contains(process.plan->rank);
}

void Supervisor::ReleaseDrained(std::vector<JobProcess*>& ended) {
  if (!TrainersRun()) return;
  std::erase_if(ended, [this](JobProcess* process) {
    // The exit status does not matter, because a drained pserver may also be killed.
    const int rank = process->plan->rank;
    const bool ending = process->is(Role::kPserver) && scale_.IsEnding(rank);
    if (!ending && !IsDrained(*process)) return false;
    journal_.Note("left", process->plan->Name(), process->process->pid(),
                  ending ? "scaled down" : "drained");
    ending ? sockets_.Keep(*process->plan) : sockets_.Release(rank);
    return true;
  });
}

void Supervisor::HandleReplicas(std::vector<JobProcess*>& ended) {
  const auto others =
      std::stable_partition(ended.begin(), ended.end(),
                            [](const JobProcess* process) { return !process->is(Role::kReplica); });
  const std::vector<JobProcess*> replicas(others, ended.end());
  ended.resize(ended.size() - replicas.size());
  if (stop_.stopping()) return;
  const Time now = SteadyNow();
  for (JobProcess* const process : replicas) {
    const ProcessPlan& plan = *process->plan;
    if (ReadPserverChanges(plan_.log_dir).drained.contains(plan.rank)) {
      journal_.Note("left", plan.Name(), process->process->pid(), "its pserver was drained");
      continue;
    }
    const Duration pause = replicas_.OnEnded(plan, now - process->started, now);
    journal_.Say(absl::StrFormat("%s: %s: starting it again in %.0f s; its log is %s", plan.Name(),
                                 process->exit().Text(), Seconds(pause), plan.log_file));
  }
}

void Supervisor::StartReplicas() {
  if (stop_.stopping()) return;
  for (const ProcessPlan* const plan : replicas_.TakeDue(SteadyNow())) {
    const auto& all = processes_.all();
    const auto old = std::ranges::find_if(all, [plan](const auto& p) { return p->plan == plan; });
    if (old != all.end()) processes_.Remove(**old);
    journal_.Note("restarted", plan->Name(), 0, "");
    const Status status = Start(*plan, /*again=*/true);
    if (status.ok()) continue;
    const Duration pause = replicas_.OnEnded(*plan, Duration(), SteadyNow());
    journal_.Say(absl::StrFormat("%s: starting it again in %.0f s",
                                 ToString(Annotate(status, "restarting " + plan->Name())),
                                 Seconds(pause)));
  }
}

void Supervisor::StartAgain(JobProcess& old, int number, bool member) {
  const ProcessPlan& plan = *old.plan;
  restarts_ = number;
  NoteOnAllHosts("restarted", old, absl::StrFormat("%d of %d", restarts_, options_.max_restarts));
  const std::string how = old.StorageFailed()      ? "ended by a storage error"
                          : old.exit().signal == 0 ? "stopped on request"
                                                   : "killed by " + SignalName(old.exit().signal);
  const char* caution = plan.forgets ? "; with --durability=none it restores only its last "
                                       "checkpoint, and later pushes are lost"
                                     : "";
  journal_.Say(absl::StrFormat("%s was %s; restarting it (restart %d of %d)%s", plan.Name(), how,
                               restarts_, options_.max_restarts, caution));
  Replace(old, member);
}

void Supervisor::Replace(const JobProcess& old, bool member) {
  const ProcessPlan& plan = *old.plan;
  processes_.Remove(old);
  const Status status = Start(plan, /*again=*/true, member);
  if (status.ok()) return;
  const Status why = Annotate(status, "restarting " + plan.Name());
  journal_.Say(ToString(why));
  // The process could not be restarted, and the other processes would wait for it. Therefore the
  // job ends with this error (not_started_).
  // An elastic job continues without a rank that is no member yet.
  if (!not_started_.ok() || (!member && plan_.elastic())) return;
  not_started_ = why;
  if (!group_->alone()) {
    group_->Report({.kind = JobReport::Kind::kNotStarted,
                    .number = plan.role == Role::kTrainer ? plan.rank : -1,
                    .text = std::string(why.message()),
                    .process = plan.Name()});
  }
}

void Supervisor::BlameOneOf(const std::vector<JobProcess*>& ended) {
  std::vector<JobProcess*> failed;
  for (JobProcess* process : ended) {
    if (!process->exit().ok() || WasStopped(*process)) failed.push_back(process);
  }
  failure_.BlameOneOf(failed);
}

void Supervisor::NoteOnAllHosts(const char* event, const JobProcess& process,
                                const std::string& text) {
  const int64_t pid = process.process ? process.process->pid() : 0;
  journal_.Note(event, process.plan->Name(), pid, text);
  if (group_->alone()) return;
  group_->Report({.kind = JobReport::Kind::kEvent,
                  .text = text,
                  .event = event,
                  .process = process.plan->Name()});
}

// ---- Orders of the director ---------------------------------------------------------------------

void Supervisor::CarryOutOrders() {
  for (const JobOrder& order : group_->Step(SteadyNow())) CarryOut(order);
}

void Supervisor::CarryOut(const JobOrder& order) {
  using Kind = JobOrder::Kind;
  switch (order.kind) {
    case Kind::kRestart: {
      JobProcess* const old = processes_.FindEnded(order.process);
      if (old != nullptr && !stop_.stopping()) StartAgain(*old, order.number, order.member);
      return;
    }
    case Kind::kWorld:
      return EnterWorld(order);
    case Kind::kFailed:
      if (!failure_.known() && stop_.signal() == 0) failure_.Adopt(order.failure);
      // Another run of the job needs no result of these processes. A primary that goes on could
      // answer trainers of this run with an old state.
      if (CanJoinAgain()) {
        processes_.Signal(Role::kTrainer, SIGKILL);
        processes_.Signal(Role::kPserver, SIGKILL);
      }
      return;
    case Kind::kOver:
      over_ = true;
      return;
    case Kind::kSignal:
      return Stop(order.number);
    case Kind::kFinish:
      finished_ = true;
      return;
    case Kind::kStartLost:
      return StartLostRanks(order.members);
    case Kind::kRelease:
      return Leave(order.number);
    case Kind::kWait:
      return JudgeWait(order.wait);
    case Kind::kMember:
      return members_.Send(order.server, order.server_member, order.command);
    case Kind::kPrimary:
      return OnPrimary(order);
    case Kind::kKill:
      return Kill(order);
    case Kind::kEnd:
      if (JobProcess* const process = processes_.FindRunning(order.process))
        process->Signal(order.number);
      return;
    case Kind::kNote:
      if (!order.event.empty()) journal_.Note(order.event.c_str(), order.process, 0, order.text);
      if (!order.shown.empty()) journal_.Say(order.shown);
      return;
  }
}

// ---- Elastic jobs -------------------------------------------------------------------------------

void Supervisor::EnterWorld(const JobOrder& order) {
  over_ = order.over;
  const std::vector<int>& ranks = order.members;
  for (const auto& process : processes_.all()) {
    if (!process->is(Role::kTrainer)) continue;
    process->member = std::ranges::binary_search(ranks, process->plan->rank);
    const bool shown = !ranks.empty() && process->plan->rank == ranks[0];
    if (!options_.quiet) process->ShowOn(shown ? shown_stdout() : -1);
  }
  const Status status = world_.Publish(order.version, ranks, order.over);
  if (!status.ok()) journal_.Say(ToString(status));
}

void Supervisor::StartLostRanks(const std::vector<int>& only) {
  if (stop_.stopping() || over_) return;
  std::vector<JobProcess*> lost;
  for (const auto& process : processes_.all()) {
    if (!process->is(Role::kTrainer) || !process->seen_end) continue;
    if (only.empty() || std::ranges::count(only, process->plan->rank) > 0) {
      lost.push_back(process.get());
    }
  }
  journal_.Say(absl::StrFormat("%s: restarting %d of %d trainers",
                               only.empty() ? "SIGUSR1" : "tandem scale", lost.size(),
                               plan_.workers));
  for (const JobProcess* old : lost) Replace(*old, /*member=*/false);
}

// ---- Changes of the numbers of processes --------------------------------------------------------

void Supervisor::Scale(const ScaleRequest& request) {
  const bool workers = request.what == ScaleRequest::What::kWorkers;
  const ScaleSide& side = workers ? scale_.state().workers : scale_.state().pservers;
  if (stop_.stopping() || over_ || !side.Accepts(request.number)) return;
  journal_.Note(
      "scaling", "", 0,
      absl::StrFormat("%s %d to %d", workers ? "workers" : "pservers", side.now, request.number));
  if (!workers) return pserver_scaling_.SetNumber(request.number);
  scale_.SetDesiredWorkers(request.number);
  group_->Report({.kind = JobReport::Kind::kScale, .number = request.number});
}

void Supervisor::UpdateScale() {
  journal_.NoteLoss(scale_.Update(processes_));
  if (scale_metrics_ != nullptr) scale_metrics_->Show(scale_.state());
}

// ---- The end of the job -------------------------------------------------------------------------

void Supervisor::Advance() {
  using Phase = StopSequence::Phase;
  const bool trainers_run = processes_.AnyRunning(Role::kTrainer);
  if (stop_.running()) {
    if (failure_.known() || !not_started_.ok()) {
      StopTrainers(SIGTERM);
    } else if (!group_->alone()) {
      if (finished_ && !trainers_run) return StopPservers();
    } else if (processes_.Has(Role::kTrainer) && !trainers_run) {
      if (!plan_.hosts.remote_workers) return StopPservers();
      if (processes_.AnyRunning(Role::kPserver) && !std::exchange(told_remote_, true)) {
        std::fprintf(stderr,
                     "tandemrun: the trainers of this host have ended; its pservers continue for "
                     "trainers of other hosts (stop them with Ctrl-C)\n");
      }
    }
  }
  if (stop_.phase() == Phase::kStoppingTrainers && !TrainersRun()) StopPservers();
  if (!stop_.TakeKill(SteadyNow())) return;
  if (stop_.phase() == Phase::kStoppingTrainers && !stop_.kill_now()) {
    failure_.PreferUnresponsive(processes_, std::chrono::seconds(options_.grace_s));
  }
  processes_.Signal(Role::kTrainer, SIGKILL);
  finished_ = true;  // the pservers do not wait for trainers of other hosts any longer
  if (!stop_.kills_pservers()) return;
  processes_.Signal(Role::kPserver, SIGKILL);
  processes_.Signal(Role::kReplica, SIGKILL);
}

void Supervisor::StopTrainers(int signal) {
  stop_.StopTrainers(SteadyNow());
  processes_.Signal(Role::kTrainer, signal);
}

void Supervisor::StopPservers() {
  stop_.StopPservers(SteadyNow());
  processes_.Signal(Role::kPserver, SIGTERM);
  processes_.Signal(Role::kReplica, SIGTERM);
}

int Supervisor::Conclude() {
  journal_.RepeatWarning();
  if (!failure_.known()) {
    const int signal = stop_.signal();
    journal_.Note("done", "", 0, signal == 0 ? "" : "stopped by " + SignalName(signal));
    return signal == 0 ? 0 : 128 + signal;
  }
  const Failure& failure = failure_.get();
  journal_.Note("failed", absl::StrFormat("%s %d", failure.role, failure.rank), failure.pid,
                failure.exit.Text());
  std::vector<std::string> others;
  for (const auto& process : processes_.all()) {
    if (process->process->pid() == failure.pid) continue;
    others.push_back(process->plan->Name() + ": " + process->exit().Text());
  }
  const std::string error_file = plan_.log_dir + "/error.json";
  std::fputs(FailureText(plan_.job_name, failure, others, error_file).c_str(), stderr);
  const Status written = WriteErrorFile(error_file, plan_.job_name, failure, others);
  if (!written.ok()) std::fprintf(stderr, "tandemrun: %s\n", ToString(written).c_str());
  return JobExitCode(failure);
}

}  // namespace tandem::deploy
