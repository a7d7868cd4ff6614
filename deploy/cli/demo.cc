#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/demo_data.h"
#include "deploy/cli/demo_report.h"
#include "deploy/cli/launch_job.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "tandem demo    trains LeNet on Fashion-MNIST with 2 pservers and 2 trainers, then the same "
    "job\n"
    "               with 2 ranks in collective mode, and compares the parameters bit for bit.\n"
    "               Exit code 0 only if both trained and the bits are the same.\n";

const std::vector<FlagSpec>& DemoFlags() {
  static const std::vector<FlagSpec> kFlags = {
      {"data", "", "DIR", "folder with the four idx files of MNIST's layout, plain or .gz"},
      {"epochs", "", "N", "passes over the training set (default: the example's)"},
      {"json", "", "", "one JSON object on stdout, everything else on stderr"},
      {"dir", "", "DIR", "jobs, logs and checkpoints go here and stay"},
      {"keep", "", "", "keep them without --dir too, in ./tandem-demo"},
      {"pserver_bin", "", "FILE", "instead of tandem-pserver beside this program"},
      {"trainer_bin", "", "FILE", "instead of tandem-trainer beside this program"},
  };
  return kFlags;
}

Status OpenFolder(const ParsedArgs& args, WorkFolder& folder) {
  const bool stays = args.Has("dir") || args.Has("keep");
  TD_RETURN_IF_ERROR(folder.Open(stays ? args.Get("dir", "tandem-demo") : "", "demo"));
  // What an earlier demo left would be taken up where it stopped.
  std::error_code error;
  for (const char* part : {"pserver", "collective"}) {
    std::filesystem::remove_all(folder.path() + "/" + part, error);
  }
  return OkStatus();
}

StatusOr<std::string> FindData(const ParsedArgs& args) {
  const std::string dir = args.Get("data", kFashionMnistDir);
  const Status status = CheckIdxFolder(dir);
  if (status.ok()) return std::filesystem::absolute(dir).string();
  return Status(status.code(),
                std::string(status.message()) +
                    (args.Has("data") ? "; hint: --data takes a folder with MNIST's four idx files"
                                      : "; hint: apt-get install dataset-fashion-mnist, or "
                                        "--data=DIR with your own idx files"));
}

// One of the two runs. Returns the exit code of the job.
StatusOr<int> RunPart(const ParsedArgs& args, const std::string& data, const std::string& dir,
                      const std::vector<std::string>& launch_args) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  TD_ASSIGN_OR_RETURN(const int epochs, args.GetInt("epochs", 0, 1, 100000));
  TD_ASSIGN_OR_RETURN(const std::string job, DemoJob(data, dir + "/checkpoints", epochs));
  const std::string job_file = dir + "/job.pbtxt";
  std::ofstream(job_file) << job;
  return RunJob({.name = "tandem demo",
                 .job_file = job_file,
                 .dir = dir,
                 .launch_args = launch_args,
                 .trainer_args = {},
                 .pserver_bin = args.Get("pserver_bin"),
                 .trainer_bin = args.Get("trainer_bin"),
                 .only_stderr = args.Has("json")});
}

// Runs both and fills `result`. The value is the exit code of the first run that failed, or 0.
StatusOr<int> RunBoth(const ParsedArgs& args, const WorkFolder& folder, DemoResult& result) {
  TD_ASSIGN_OR_RETURN(const std::string data, FindData(args));
  struct Part {
    const char* name;
    const char* title;
    std::vector<std::string> launch_args;
    DemoRun& run;
  };
  const Part parts[] = {
      {"pserver", "2 pservers + 2 trainers, sync", {"--servers=2", "--workers=2"}, result.pserver},
      {"collective",
       "2 ranks, ring allreduce",
       {"--mode=collective", "--nproc=2"},
       result.collective},
  };
  std::FILE* const screen = args.Has("json") ? stderr : stdout;
  std::fprintf(screen, "tandem demo: LeNet on the images in %s\n", data.c_str());
  int number = 0;
  for (const Part& part : parts) {
    const std::string title = absl::StrFormat("[%d/2] %s (tandemrun", ++number, part.title);
    std::string command;
    for (const std::string& arg : part.launch_args) command += " " + arg;
    std::fprintf(screen, "\n%s%s lenet.pbtxt)\n",
                 Paint(fileno(screen), Color::kBold, title).c_str(), command.c_str());
    std::fflush(screen);
    const std::string dir = folder.path() + "/" + part.name;
    TD_ASSIGN_OR_RETURN(const int code, RunPart(args, data, dir, part.launch_args));
    if (code != 0) return code;
    TD_ASSIGN_OR_RETURN(part.run, ReadDemoRun(dir + "/result.json"));
  }
  return 0;
}

}  // namespace

int RunDemo(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  if (!ParseOrExplain("demo", kUsage, DemoFlags(), args, &parsed, &exit_code)) return exit_code;
  if (!parsed.positional.empty()) {
    return Fail("demo", InvalidArgument("unexpected \"%s\"", parsed.positional[0]));
  }
  const Time start = SteadyNow();
  WorkFolder folder;
  if (const Status opened = OpenFolder(parsed, folder); !opened.ok()) return Fail("demo", opened);

  DemoResult result;
  const StatusOr<int> code = RunBoth(parsed, folder, result);
  if (!code.ok()) return Fail("demo", code.status());
  if (*code != 0) {
    folder.Keep();
    std::fprintf(stderr, "tandem demo: a run failed; logs are in %s\n", folder.path().c_str());
    return *code;
  }
  result.seconds = Seconds(SteadyNow() - start);
  if (parsed.Has("json")) {
    std::fputs(DemoJson(result).c_str(), stdout);
  } else {
    std::fputs(DemoText(result, STDOUT_FILENO).c_str(), stdout);
    if (!folder.temporary()) std::printf("jobs, logs, checkpoints: %s\n", folder.path().c_str());
    std::printf("next:  tandem lint FILE, tandem knobs list, tandem doctor, tandemrun --help\n");
  }
  return result.SameBits() ? 0 : kExitFailure;
}

}  // namespace tandem::deploy
