#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/base/nearest.h"
#include "common/os/files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/tools/program_stages.h"
#include "kernels/graph/draw.h"

extern char** environ;

namespace tandem::deploy {
namespace {

constexpr char kGraphUsage[] =
    "tandem graph JOB    prints the training program of a job, operator by operator, and the "
    "effect\n                    of the passes that its strategy uses\n";

// Returns the index of the point that --before or --after names. If neither flag is present,
// returns the index of the last point.
StatusOr<size_t> PointOf(const ParsedArgs& parsed, const ProgramStages& history) {
  if (parsed.Has("before") && parsed.Has("after")) {
    return InvalidArgument(
        "--before and --after exclude each other [TD1005]; hint: use one of them");
  }
  if (!parsed.Has("before") && !parsed.Has("after")) return history.points.size() - 1;
  const std::string name = parsed.Get(parsed.Has("before") ? "before" : "after");
  std::vector<std::string> names;
  for (size_t i = 0; i < history.points.size(); ++i) {
    names.push_back(history.points[i].first);
    if (names.back() != name) continue;
    if (parsed.Has("after")) return i;
    if (i == 0)
      return InvalidArgument("there is no pass before \"%s\" [TD1006]; hint: use --after=%s", name,
                             name);
    return i - 1;
  }
  std::string ran;
  for (const std::string& point : names) ran += (ran.empty() ? "" : ", ") + point;
  for (const graph::Pass& pass : graph::AllPasses()) {
    if (name != pass.name) continue;
    return InvalidArgument(
        "the strategy of the job does not use pass %s [TD1006] (passes of the job: %s)", name, ran);
  }
  return InvalidArgument("there is no pass \"%s\" [TD1006]%s (passes of the job: %s)", name,
                         OrDidYouMean(name, names), ran);
}

// Draws the graph in `dot_path` as the image `svg_path`, with the program dot of graphviz.
Status DrawSvg(const std::string& dot_path, const std::string& svg_path) {
  std::vector<std::string> words = {"dot", "-Tsvg", "-o", svg_path, dot_path};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, "dot", nullptr, nullptr, argv.data(), environ);
  if (error == ENOENT) {
    return NotFound(
        "--svg needs the program dot, which is not installed [TD7009]; hint: install graphviz, or "
        "use --dot");
  }
  if (error != 0) return Internal("cannot start dot: %s [TD7009]", std::strerror(error));
  int state = 0;
  if (waitpid(pid, &state, 0) != pid || !WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    return Internal("dot cannot draw %s [TD7009]; hint: write only the text with --dot", dot_path);
  }
  return OkStatus();
}

nlohmann::ordered_json GraphJson(const graph::Program& program, const std::string& point,
                                 const ProgramStages& history) {
  auto operators = nlohmann::ordered_json::array(), passes = operators;
  for (const ops::Op& op : program.ops) {
    auto reads = nlohmann::ordered_json::array(), writes = reads;
    graph::ForEachRead(op, [&](const std::string& name) { reads.push_back(name); });
    graph::ForEachWrite(op, [&](const std::string& name) { writes.push_back(name); });
    operators.push_back({{"type", op.type}, {"reads", reads}, {"writes", writes}});
  }
  for (const graph::PassReport& report : history.passes) {
    passes.push_back({{"pass", report.name},
                      {"matched", report.outcome.matched},
                      {"reason", report.outcome.reason}});
  }
  return {
      {"program", program.name}, {"after", point}, {"operators", operators}, {"passes", passes}};
}

Status Show(const ParsedArgs& parsed, const ProgramStages& history) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(parsed));
  TD_ASSIGN_OR_RETURN(const size_t at, PointOf(parsed, history));
  const auto& [point, program] = history.points[at];
  const std::string dot = graph::ToDot(program, program.name + " after " + point);
  if (parsed.Has("dot")) return WriteTextFile(parsed.Get("dot"), dot);
  if (parsed.Has("svg")) {
    const std::string svg = parsed.Get("svg"), source = svg + ".dot";
    TD_RETURN_IF_ERROR(WriteTextFile(source, dot));
    const Status drawn = DrawSvg(source, svg);
    std::remove(source.c_str());
    return drawn;
  }
  if (as_json) {
    std::puts(GraphJson(program, point, history).dump(2).c_str());
    return OkStatus();
  }
  std::printf("# %s after %s: %zu operators\n%s", program.name.c_str(), point.c_str(),
              program.ops.size(), graph::Dump(program).c_str());
  std::fputs(graph::ReportText(history.passes).c_str(), stderr);
  return OkStatus();
}

}  // namespace

int RunGraph(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  const std::vector<FlagSpec> flags = {
      {"before", "", "PASS", "print the program before this pass (or autodiff, distribute)"},
      {"after", "", "PASS", "print the program after this pass (or model, autodiff, distribute)"},
      {"dot", "", "FILE", "write a graph for graphviz instead of printing"},
      {"svg", "", "FILE", "draw the graph with graphviz instead of printing"},
      {"workers", "", "N", "number of workers of the job (default 1)"},
      {"heter_workers", "", "N", "number of heter workers (mode hybrid; default 0)"},
      {"rank", "", "R", "rank whose program is printed (default 0)"},
      kOutputFlag,
  };
  if (!ParseOrExplain("graph", kGraphUsage, flags, args, &parsed, &exit_code)) return exit_code;
  if (parsed.positional.size() != 1) {
    return Fail("graph", InvalidArgument(
                             "expected one JOB file [TD1007]; hint: run tandem graph job.pbtxt"));
  }
  const auto workers = parsed.GetInt("workers", 1, 1, 65536);
  if (!workers.ok()) return Fail("graph", workers.status());
  const auto heter_workers = parsed.GetInt("heter_workers", 0, 0, *workers);
  if (!heter_workers.ok()) return Fail("graph", heter_workers.status());
  const auto rank = parsed.GetInt("rank", 0, 0, *workers + *heter_workers - 1);
  if (!rank.ok()) return Fail("graph", rank.status());
  const auto history = HistoryOf(parsed.positional[0], *workers, {}, static_cast<int>(*rank),
                                 static_cast<int>(*heter_workers));
  if (!history.ok()) return Fail("graph", history.status());
  const Status status = Show(parsed, *history);
  return status.ok() ? 0 : Fail("graph", status);
}

}  // namespace tandem::deploy
