#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/os/ports.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/demo/demo_data.h"
#include "deploy/cli/demo/demo_kill.h"
#include "deploy/cli/demo/demo_report.h"
#include "deploy/cli/idx_data.h"
#include "deploy/cli/job/launch_job.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "tandem demo    trains LeNet on Fashion-MNIST with 2 pservers and 2 trainers over mutual TLS, "
    "and\n               kills a pserver during the training (kill -9). Then trains the same job "
    "with 2\n               ranks in collective mode without a kill, and compares the parameters "
    "bit for bit.\n               The exit code is 0 only if both jobs trained, no update was lost "
    "or applied\n               twice, and the bits are equal.\n";

constexpr int kServers = 2, kTrainers = 2;
constexpr char kOurs[] =
    "# Written by tandem demo; the next demo in this directory removes this file.";
constexpr int kVictim = 1;
constexpr int kEpochsMax = 100000;
constexpr double kKillAt = 0.4;  // share of the job's steps after which a pserver is killed

const std::vector<FlagSpec>& DemoFlags() {
  static const std::vector<FlagSpec> kFlags = {
      {"data", "", "DIR", "directory with the four idx files in the layout of MNIST, plain or .gz"},
      {"epochs", "", "N", "passes over the training set (default: as in the example job)"},
      {"no_kill", "", "", "do not kill a pserver"},
      {"json", "", "", "as --output=json: one JSON object on stdout, everything else on stderr"},
      kOutputFlag,
      {"dir", "", "DIR", "directory for jobs, logs and checkpoints, which are kept"},
      {"keep", "", "", "keep jobs, logs and checkpoints in ./tandem-demo"},
      {"pserver_bin", "", "FILE", "program to run instead of tandem-pserver"},
      {"trainer_bin", "", "FILE", "program to run instead of tandem-trainer"},
  };
  return kFlags;
}

Status OpenDir(const ParsedArgs& args, WorkDir& dir) {
  const bool stays = args.Has("dir") || args.Has("keep");
  TD_RETURN_IF_ERROR(dir.Open(stays ? args.Get("dir", "tandem-demo") : "", "demo"));
  // Removes the files of an earlier demo, because the job would otherwise resume from them.
  for (const char* name : {"pserver", "collective"}) {
    const std::string part = dir.path() + "/" + name;
    std::error_code error;
    if (!std::filesystem::exists(part, error)) continue;
    std::string first_line;
    std::getline(std::ifstream(part + "/job.pbtxt") >> std::ws, first_line);
    if (first_line != kOurs) {
      return FailedPrecondition(
          "directory %s already exists, but is not from an earlier demo [TD2109]; hint: choose "
          "another --dir",
          part);
    }
    std::filesystem::remove_all(part, error);
  }
  return OkStatus();
}

StatusOr<std::string> FindData(const ParsedArgs& args) {
  const std::string dir = args.Get("data", kFashionMnistDir);
  const Status status = CheckIdxDir(dir);
  if (status.ok()) return std::filesystem::absolute(dir).string();
  return Status(
      status.code(),
      std::string(status.message()) +
          (args.Has("data") ? "; hint: set --data to a directory with the four idx files of MNIST"
                            : "; hint: run apt-get install dataset-fashion-mnist, or name a "
                              "directory of idx files with --data=DIR"));
}

bool AsJson(const ParsedArgs& args) { return args.Has("json") || args.Get("output") == "json"; }
std::FILE* Screen(const ParsedArgs& args) { return AsJson(args) ? stderr : stdout; }

// Runs one of the two jobs of the demo. Returns the exit code of this job.
StatusOr<int> RunPart(const ParsedArgs& args, const std::string& data, const std::string& dir,
                      const std::vector<std::string>& launch_args) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  TD_ASSIGN_OR_RETURN(const int epochs, args.GetInt("epochs", 0, 1, kEpochsMax));
  TD_ASSIGN_OR_RETURN(const std::string job, DemoJob(data, dir + "/checkpoints", epochs));
  const std::string job_file = dir + "/job.pbtxt";
  std::ofstream(job_file) << kOurs << "\n" << job;
  return RunJob({.name = "tandem demo",
                 .job_file = job_file,
                 .dir = dir,
                 .launch_args = launch_args,
                 .trainer_args = {},
                 .pserver_bin = args.Get("pserver_bin"),
                 .trainer_bin = args.Get("trainer_bin"),
                 .only_stderr = AsJson(args)});
}

void Say(std::FILE* screen, const std::string& line) {
  // Clears the current line of a terminal, because the line may show a progress bar.
  const char* clear = isatty(fileno(screen)) == 1 ? "\r\033[K" : "";
  std::fprintf(screen, "%s %s\n", clear, Paint(fileno(screen), Color::kYellow, line).c_str());
  std::fflush(screen);
}

void SayPart(std::FILE* screen, int number, const char* title, const std::string& command) {
  const std::string head = absl::StrFormat("[%d/2] %s", number, title);
  std::fprintf(screen, "\n%s\n      tandemrun%s lenet.pbtxt\n",
               Paint(fileno(screen), Color::kBold, head).c_str(), command.c_str());
  std::fflush(screen);
}

// Runs the job in pserver mode with TLS. One pserver is killed during the job and restarted.
StatusOr<int> RunPserverPart(const ParsedArgs& args, const std::string& data,
                             const std::string& dir, DemoResult& result) {
  std::FILE* const screen = Screen(args);
  TD_ASSIGN_OR_RETURN(const int port, FreePorts("127.0.0.1", kServers + kTrainers));
  const std::string command =
      absl::StrFormat(" --servers=%d --workers=%d --tls --max_restarts=1", kServers, kTrainers);
  std::vector<std::string> launch = absl::StrSplit(command, ' ', absl::SkipEmpty());
  launch.push_back("--pserver_data_dir=" + dir + "/shards");
  launch.push_back(absl::StrFormat("--status_port=%d", port));
  SayPart(screen, 1, "2 pservers + 2 trainers, sync, mutual TLS",
          command + " --pserver_data_dir=shards");
  std::fprintf(screen, "      status page: http://127.0.0.1:%d/\n", port);
  std::fflush(screen);
  std::unique_ptr<PserverKiller> killer;
  const std::string log_dir = dir + "/log";
  if (!args.Has("no_kill")) {
    killer = std::make_unique<PserverKiller>(PserverKiller::Options{
        log_dir, kVictim, kKillAt, [screen](const std::string& line) { Say(screen, line); }});
  }
  TD_ASSIGN_OR_RETURN(const int code, RunPart(args, data, dir, launch));
  if (killer != nullptr) result.kill = killer->Finish();
  if (code != 0) return code;
  TD_ASSIGN_OR_RETURN(result.pserver, ReadDemoRun(dir + "/result.json"));
  if (!result.kill) return 0;
  if (!result.kill->recovered())
    return Aborted("the demo failed to kill and recover a pserver: %s", result.kill->problem);
  TD_ASSIGN_OR_RETURN(result.updates, CountUpdates(log_dir, kServers, result.pserver.steps));
  return 0;
}

StatusOr<int> RunCollectivePart(const ParsedArgs& args, const std::string& data,
                                const std::string& dir, DemoResult& result) {
  const std::string command = absl::StrFormat(" --mode=collective --nproc=%d", kTrainers);
  SayPart(Screen(args), 2, "2 ranks, ring allreduce, without a kill", command);
  const std::vector<std::string> launch = absl::StrSplit(command, ' ', absl::SkipEmpty());
  TD_ASSIGN_OR_RETURN(const int code, RunPart(args, data, dir, launch));
  if (code != 0) return code;
  TD_ASSIGN_OR_RETURN(result.collective, ReadDemoRun(dir + "/result.json"));
  return 0;
}

// Checks the arguments. The caller calls CheckArgs before it creates any file.
Status CheckArgs(const ParsedArgs& args) {
  TD_RETURN_IF_ERROR(TakesAtMost(0, args));
  TD_RETURN_IF_ERROR(args.GetInt("epochs", 0, 1, kEpochsMax).status());
  TD_RETURN_IF_ERROR(WantsJson(args).status());
  return FindData(args).status();
}

// Runs both jobs and fills `result`. Returns the exit code of the first job that failed; 0: no job
// failed.
StatusOr<int> RunBoth(const ParsedArgs& args, const WorkDir& dir, DemoResult& result) {
  TD_ASSIGN_OR_RETURN(const std::string data, FindData(args));
  std::fprintf(Screen(args), "tandem demo: LeNet on the images in %s\n", data.c_str());
  TD_ASSIGN_OR_RETURN(const int code, RunPserverPart(args, data, dir.path() + "/pserver", result));
  if (code != 0) return code;
  return RunCollectivePart(args, data, dir.path() + "/collective", result);
}

}  // namespace

int RunDemo(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  if (!ParseOrExplain("demo", kUsage, DemoFlags(), args, &parsed, &exit_code)) return exit_code;
  if (const Status wrong = CheckArgs(parsed); !wrong.ok()) return Fail("demo", wrong);
  const Time start = SteadyNow();
  WorkDir dir;
  if (const Status opened = OpenDir(parsed, dir); !opened.ok()) return Fail("demo", opened);

  DemoResult result;
  const StatusOr<int> code = RunBoth(parsed, dir, result);
  if (!code.ok()) {
    dir.Keep();
    std::fprintf(stderr, "tandem demo: logs are in %s\n", dir.path().c_str());
    return Fail("demo", code.status());
  }
  if (*code == 128 + SIGINT || *code == 128 + SIGTERM) {
    std::fprintf(stderr, "tandem demo: stopped\n");
    return *code;
  }
  if (*code != 0) {
    dir.Keep();
    std::fprintf(stderr, "tandem demo: a job failed; logs are in %s\n", dir.path().c_str());
    return *code;
  }
  result.seconds = Seconds(SteadyNow() - start);
  if (AsJson(parsed)) {
    std::fputs(DemoJson(result).c_str(), stdout);
  } else {
    std::fputs(DemoText(result, STDOUT_FILENO).c_str(), stdout);
    if (!dir.temporary()) std::printf("jobs, logs, checkpoints: %s\n", dir.path().c_str());
    std::printf("next:  tandem lint FILE, tandem knobs list, tandem doctor, tandemrun --help\n");
  }
  return result.Good() ? 0 : kExitFailure;
}

}  // namespace tandem::deploy
