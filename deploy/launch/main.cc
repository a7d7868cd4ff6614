// tandemrun: starts and supervises the pservers and trainers of a job on this machine.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/error_text.h"
#include "common/os/core_limit.h"
#include "common/os/host_limits.h"
#include "common/rpc/grpc_log.h"
#include "deploy/launch/job_files.h"
#include "deploy/launch/job_hosts.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/options/launch_options.h"
#include "deploy/launch/supervisor.h"

namespace tandem::deploy {
namespace {

constexpr int kKeptRunsMax = 1000;  // maximum number of log directories of earlier runs

constexpr char kUsage[] =
    "tandemrun: starts a job on this machine; on several, run the same command with --hosts on "
    "each\n"
    "  tandemrun --servers=2 --workers=2 job.pbtxt          parameters on 2 pservers\n"
    "  tandemrun --mode=collective --nproc=2 job.pbtxt      gradients reduced among 2 ranks\n"
    "  tandemrun --mode=local job.pbtxt                     one process\n"
    "  tandemrun --hosts=2 --nproc=2 --rendezvous=tcp://HOST:PORT --secret_file=FILE job.pbtxt\n"
    "  ... job.pbtxt --epochs=3                             fields of the job (proto/job.proto)\n"
    "  ... job.pbtxt -- --log_format=json                   flags of tandem-trainer after --\n"
    "\n";

// Time limit for telling the other hosts why this host cannot start.
constexpr auto kLeaveMax = std::chrono::seconds(2);

// Prints the address of the first status page, which is that of the first trainer.
void PrintStatusPage(const LaunchPlan& plan) {
  for (const ProcessPlan& p : plan.processes) {
    if (p.role != Role::kTrainer || p.status_page.empty()) continue;
    std::fprintf(stderr, "tandemrun: status page: %s\n", p.status_page.c_str());
    return;
  }
}

// How a run of the job ended.
struct Outcome {
  int code = 0;  // exit code
  // true: another run can continue the job, because only the leading host was lost.
  bool again = false;
  int max_restarts = 0;
  std::string log_dir;  // log directory of this host
};

// Tells the other hosts why this host cannot start its processes. Returns `why`. `group` may be
// null.
Status FailOnAllHosts(HostGroup* group, const Status& why) {
  if (group != nullptr) group->Fail(why, kLeaveMax);
  return why;
}

// Runs the job, or the part of this host. `again`: this host was in an earlier run of the job,
// which has lost its leading host.
StatusOr<Outcome> Launch(const ParsedArgs& args, bool again) {
  const Environment env = WithoutRanks(CurrentEnvironment());
  TD_ASSIGN_OR_RETURN(LaunchOptions options, MakeLaunchOptions(args, ProgramDir()));
  std::unique_ptr<HostGroup> group;  // null: the job runs on this host only
  if (options.hosts.several() && options.dry_run) Apply(ExampleLayout(options), options);
  if (options.hosts.several() && !options.dry_run) {
    TD_ASSIGN_OR_RETURN(group, JoinHosts(env, TANDEM_VERSION, again, options));
  }
  const StatusOr<LaunchPlan> made = MakeLaunchPlan(
      options, env,
      group == nullptr ? std::vector<RoleCertificate>() : group->layout().certificates);
  if (!made.ok()) return FailOnAllHosts(group.get(), made.status());
  const LaunchPlan& plan = *made;
  if (options.dry_run) {
    std::fputs(Describe(plan).c_str(), stdout);
    return Outcome();
  }
  // The secrets exist until this object is destroyed, after the job has ended.
  const StatusOr<HeldSecrets> secrets = PrepareFiles(plan);
  if (!secrets.ok()) return FailOnAllHosts(group.get(), secrets.status());
  if (!options.supervision.quiet) {
    const std::string host = group == nullptr
                                 ? ""
                                 : absl::StrFormat(", host %d of %d", group->layout().number,
                                                   group->layout().hosts.size());
    std::fprintf(stderr, "tandemrun: job \"%s\", mode %s: %s%s, logs in %s\n",
                 plan.job_name.c_str(), ModeName(plan.mode), plan.Counts(" + ").c_str(),
                 host.c_str(), plan.log_dir.c_str());
    PrintStatusPage(plan);
  }
  Supervisor::Options of_supervisor{.env = env,
                                    .grace_s = options.supervision.grace_s,
                                    .max_restarts = options.supervision.max_restarts,
                                    .host_timeout = options.hosts.timeout,
                                    .quiet = options.supervision.quiet,
                                    .metrics_listen = options.supervision.metrics_listen};
  Supervisor supervisor(plan, std::move(of_supervisor), std::move(group));
  Outcome outcome{.max_restarts = options.supervision.max_restarts, .log_dir = plan.log_dir};
  TD_ASSIGN_OR_RETURN(outcome.code, supervisor.Run());
  outcome.again = supervisor.CanJoinAgain();
  return outcome;
}

// Renames the log directory of a run, which the next run would empty. Returns the new name, or the
// old one if it cannot be renamed.
std::string KeepLogs(const std::string& log_dir) {
  std::error_code error;
  for (int run = 1; run < kKeptRunsMax; ++run) {
    const std::string kept = absl::StrFormat("%s.run-%d", log_dir, run);
    if (std::filesystem::exists(kept, error)) continue;
    std::filesystem::rename(log_dir, kept, error);
    return error ? log_dir : kept;
  }
  return log_dir;
}

// Runs the job. If the leading host is lost, joins the job again with the other hosts. Its state is
// in the pservers of these hosts, in a checkpoint, or still in the ranks of the leading host.
StatusOr<int> LaunchUntilDone(const ParsedArgs& args) {
  for (int run = 1;; ++run) {
    TD_ASSIGN_OR_RETURN(const Outcome outcome, Launch(args, /*again=*/run > 1));
    if (!outcome.again || run > outcome.max_restarts) return outcome.code;
    std::fprintf(stderr,
                 "tandemrun: the leading host is lost: this host joins the job again at %s, as "
                 "soon as a tandemrun leads it there (restart %d of %d); the logs so far are in "
                 "%s\n",
                 args.Get("rendezvous").c_str(), run, outcome.max_restarts,
                 KeepLogs(outcome.log_dir).c_str());
  }
}

int Main(int argc, char** argv) {
  const StatusOr<ParsedArgs> args =
      ParseLaunchArgs(std::vector<std::string>(argv + 1, argv + argc));
  if (!args.ok()) {
    std::fputs(ErrorText("tandemrun", args.status()).c_str(), stderr);
    return kExitUsage;
  }
  if (args->Has("help")) {
    std::fputs((kUsage + FlagHelp(LaunchFlags())).c_str(), stdout);
    return 0;
  }
  if (args->Has("version")) {
    std::puts("tandemrun " TANDEM_VERSION);
    return 0;
  }
  const StatusOr<int> code = LaunchUntilDone(*args);
  if (code.ok()) return *code;
  std::fputs(ErrorText("tandemrun", code.status()).c_str(), stderr);
  return ExitCodeOf(code.status());
}

}  // namespace
}  // namespace tandem::deploy

int main(int argc, char** argv) {
  tandem::NameHostLimits("tandemrun");
  FLAGS_logtostderr = true;
  google::InitGoogleLogging("tandemrun");
  tandem::rpc::InstallGrpcLog();
  tandem::LimitCoreDumps(false);  // no core dumps, because this process makes secrets and keys
  return tandem::deploy::Main(argc, argv);
}
