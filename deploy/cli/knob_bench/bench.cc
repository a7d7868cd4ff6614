// Implements `tandem bench`: measurements that users make on their own machines.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/os/files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/launch_job.h"
#include "deploy/cli/knob_bench/knob_bench_report.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    R"(tandem bench knobs    what each setting of the strategy does here: a job is run with it at
                      its default and changed, in turns, and a table tells the counter that moved,
                      the time, the memory, and whether the losses are the same. Exit code 0 only
                      if every knob did what it promises.
)";

const std::vector<FlagSpec>& BenchFlags() {
  static const std::vector<FlagSpec> kFlags = {
      {"only", "", "KNOBS",
       "knobs to measure, separated by commas (names as in tandem knobs list)"},
      {"network", "", "NAME", "measure only on this network: lenet, mlp, ..."},
      {"job", "", "FILE", "measure on this job, in the mode of the knob"},
      {"short", "", "", "few steps and 1 round, to check that the knobs work"},
      {"long", "", "", "5 rounds, and runs of twice the length"},
      {"rounds", "", "N", "number of runs of each setting (default 3)"},
      {"output", "o", "FORMAT", "table (default) or json, on stdout"},
      {"markdown", "", "FILE", "also write the result as a page"},
      {"commit", "", "ID", "commit that was built, for the page"},
      {"dir", "", "DIR", "directory for jobs and logs, which are kept"},
      {"pserver_bin", "", "FILE", "program to run instead of tandem-pserver"},
      {"trainer_bin", "", "FILE", "program to run instead of tandem-trainer"},
  };
  return kFlags;
}

StatusOr<KnobBenchOptions> OptionsOf(const ParsedArgs& args) {
  KnobBenchOptions options;
  if (args.Has("short") && args.Has("long")) {
    return InvalidArgument(
        "--short and --long exclude each other [TD1005]; hint: set only one of them");
  }
  if (args.Has("job") && args.Has("network")) {
    return InvalidArgument(
        "--job and --network exclude each other [TD1005]; hint: set only one of them");
  }
  options.length = args.Has("short") ? 0.05 : args.Has("long") ? 2 : 1;
  const int rounds = args.Has("short") ? 1 : args.Has("long") ? 5 : 3;
  TD_ASSIGN_OR_RETURN(options.rounds, args.GetInt("rounds", rounds, 1, 100));
  options.job = args.Get("job");
  options.network = args.Get("network");
  if (!options.network.empty()) {
    TD_RETURN_IF_ERROR(FindBenchNetwork(options.network).status());
  }
  if (!options.job.empty() && !std::filesystem::exists(options.job)) {
    return InvalidArgument("--job: file %s does not exist [TD1008]", options.job);
  }
  options.pserver_bin = args.Get("pserver_bin");
  options.trainer_bin = args.Get("trainer_bin");
  return options;
}

// Prints the progress on stderr: on a terminal one line that is redrawn, in a file or pipe one line
// per knob.
class BenchProgress {
 public:
  explicit BenchProgress(size_t knobs) : knobs_(knobs), terminal_(isatty(STDERR_FILENO) == 1) {}
  void Begin(const char* knob) {
    knob_ = knob;
    ++number_;
    if (!terminal_) std::fprintf(stderr, "[%zu/%zu] %s\n", number_, knobs_, knob);
  }
  void Now(const std::string& what) const {
    if (!terminal_) return;
    std::fprintf(stderr, "\r\033[K[%zu/%zu] %s: %s", number_, knobs_, knob_, what.c_str());
  }
  void End() const {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  const size_t knobs_;
  const bool terminal_;
  const char* knob_ = "";
  size_t number_ = 0;
};

StatusOr<KnobReport> Measure(const std::vector<const KnobBench*>& rows,
                             const KnobBenchOptions& options) {
  KnobReport report;
  report.rounds = options.rounds;
  report.date = absl::FormatTime("%Y-%m-%d %H:%M", absl::Now(), absl::UTCTimeZone());
  report.machine = DescribeMachine();
  report.version = TANDEM_VERSION;
  BenchProgress progress(rows.size());
  for (const KnobBench* row : rows) {
    progress.Begin(row->knob);
    StatusOr<KnobResult> result =
        BenchKnob(*row, options, [&](const std::string& what) { progress.Now(what); });
    progress.End();
    TD_RETURN_IF_ERROR(result.status());
    report.results.push_back(*std::move(result));
  }
  return report;
}

Status Show(const ParsedArgs& args, const KnobReport& report) {
  const bool json = args.Get("output") == "json";
  std::fputs((json ? KnobBenchJson(report) : KnobBenchText(report, STDOUT_FILENO)).c_str(), stdout);
  if (!args.Has("markdown")) return OkStatus();
  return WriteTextFile(args.Get("markdown"), KnobBenchMarkdown(report));
}

StatusOr<int> BenchKnobs(const ParsedArgs& args) {
  const std::string output = args.Get("output", "table");
  if (output != "table" && output != "json") {
    return InvalidArgument("--output: expected table or json, got \"%s\" [TD1006]%s", output,
                           HintText(output, {"table", "json"}));
  }
  TD_ASSIGN_OR_RETURN(KnobBenchOptions options, OptionsOf(args));
  TD_ASSIGN_OR_RETURN(const std::vector<const KnobBench*> rows, ChooseKnobs(args.Get("only")));
  WorkDir dir;
  TD_RETURN_IF_ERROR(dir.Open(args.Get("dir"), "bench"));
  options.dir = dir.path();
  TD_ASSIGN_OR_RETURN(KnobReport report, Measure(rows, options));
  report.commit = args.Get("commit");
  TD_RETURN_IF_ERROR(Show(args, report));
  for (const KnobResult& result : report.results) {
    if (!result.Problem().empty()) return kExitFailure;
  }
  return 0;
}

}  // namespace

int RunBench(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  if (!ParseOrExplain("bench", kUsage, BenchFlags(), args, &parsed, &exit_code)) return exit_code;
  const Args& words = parsed.positional;
  if (const Status status = TakesAtMost(1, parsed); !status.ok()) return Fail("bench", status);
  if (words.empty() || words[0] != "knobs") {
    const std::string got = words.empty() ? "nothing" : "\"" + words.back() + "\"";
    return Fail(
        "bench",
        InvalidArgument(
            "expected the subcommand knobs, got %s [TD1006]; hint: run tandem bench knobs", got));
  }
  const StatusOr<int> code = BenchKnobs(parsed);
  return code.ok() ? *code : Fail("bench", code.status());
}

}  // namespace tandem::deploy
