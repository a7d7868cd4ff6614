#include <glog/logging.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/os/files.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "common/strategy/validate.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/tools/lint_memory.h"
#include "proto/job.pb.h"
#include "trainer/job/job.h"
#include "trainer/session/programs.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLintUsage[] =
    "tandem lint FILE...    checks job files and saved strategies: shows all errors of a file, "
    "with\n                       line, column and the nearest name; exit code 2 if there is an "
    "error.\n                       --memory shows the memory for the temporaries of a job\n";

struct Checked {
  const char* kind = "";
  strategy::Diagnostics diagnostics;
  std::string canonical;  // the input as SaveText prints it
};

Checked CheckJobFile(const strategy::TextFile& file, int ranks) {
  Checked checked;
  checked.kind = "job";
  const trainer::EffectiveJob job = trainer::CheckJob(&file, {}, ranks, &checked.diagnostics);
  if (checked.diagnostics.ok()) {
    const Status programs = trainer::CheckPrograms(*job.config, trainer::JobDir(file.name), ranks);
    if (!programs.ok()) {
      checked.diagnostics.Error({.file = file.name}, std::string(programs.message()));
    }
  }
  checked.canonical = strategy::SaveText(*job.config);
  return checked;
}

// Returns the mode in a saved strategy. If the strategy has no mode, returns the pserver mode if
// a_sync is set, and else the collective mode.
strategy::TrainMode ModeOf(const DistributedStrategy& strategy) {
  if (strategy.has_mode()) return static_cast<strategy::TrainMode>(strategy.mode());
  if (strategy.a_sync()) return strategy::TrainMode::kPserver;
  return strategy::TrainMode::kCollective;
}

Checked CheckStrategy(const strategy::TextFile& file) {
  Checked checked;
  checked.kind = "strategy";
  DistributedStrategy strategy;
  strategy::Origins origins;
  strategy::ParseTextProto(file, &strategy, &origins, &checked.diagnostics);
  strategy::StrategyContext context;
  context.mode = ModeOf(strategy);
  context.mode_origin = origins.Of("mode");
  strategy::ValidateStrategy(strategy, context, origins, "", &checked.diagnostics);
  checked.canonical = strategy::SaveText(strategy);
  return checked;
}

template <typename Message>
int64_t UnreadErrors(const strategy::TextFile& file) {
  Message message;
  strategy::Diagnostics diagnostics;
  strategy::ParseTextProto(file, &message, nullptr, &diagnostics);
  return diagnostics.errors();
}

// Checks a file as the type `type`, "job" or "strategy". "": checks the file as the type that gives
// fewer errors when the file is read.
Checked Check(const strategy::TextFile& file, std::string type, int ranks) {
  if (type.empty()) {
    const bool strategy = UnreadErrors<DistributedStrategy>(file) < UnreadErrors<JobConfig>(file);
    type = strategy ? "strategy" : "job";
  }
  return type == "job" ? CheckJobFile(file, ranks) : CheckStrategy(file);
}

// Prints the memory report, or adds it to `json`, which is the file's part of the JSON output.
Status ShowMemory(const std::string& kind, const std::string& path, int workers, int rank,
                  Json* json) {
  if (kind != "job")
    return InvalidArgument("--memory: %s is a strategy file, expected a job file [TD1005]", path);
  TD_ASSIGN_OR_RETURN(const ProgramStages history, HistoryOf(path, workers, {}, rank));
  TD_ASSIGN_OR_RETURN(const MemoryReport report, MemoryOf(history));
  if (json == nullptr) {
    std::fputs(MemoryText(report).c_str(), stdout);
    return OkStatus();
  }
  Json rows = Json::array();
  for (const MemoryRow& row : report.rows) {
    rows.push_back({{"after", row.point},
                    // Former name of the JSON field "point" until version 0.2.
                    {"behind", row.point},
                    {"operators", row.operators},
                    {"no_reuse", row.no_reuse},
                    {"peak", row.peak},
                    {"lower_bound", row.lower_bound}});
  }
  (*json)["memory"] = {{"batch", report.batch},
                       {"points", rows},
                       {"plan", report.plan_bytes},
                       {"plan_order", report.plan_order},
                       {"parameters", report.parameter_bytes},
                       {"state", report.state_bytes},
                       {"data", report.data_bytes}};
  return OkStatus();
}

// Returns the findings of a file as JSON. The output is a list of such objects: [{"file", "kind",
// "ok", "findings": [{"severity", "file", "line", "column", "message", "hint"}]}]. With --memory an
// object also has "memory", in bytes.
Json ToJson(const std::string& path, const Checked& checked) {
  Json findings = Json::array();
  for (const strategy::Diagnostic& d : checked.diagnostics.entries()) {
    const bool is_error = d.severity == strategy::Diagnostic::Severity::kError;
    findings.push_back({{"severity", is_error ? "error" : "note"},
                        {"file", d.place.file},
                        {"line", d.place.line},
                        {"column", d.place.column},
                        {"message", d.message},
                        {"hint", d.hint}});
  }
  return {{"file", path},
          {"kind", checked.kind},
          {"ok", checked.diagnostics.ok()},
          {"findings", findings}};
}

void Print(const std::string& path, const Checked& checked) {
  std::fputs(checked.diagnostics.NoteText().c_str(), stderr);
  std::fputs(checked.diagnostics.ErrorText().c_str(), stderr);
  if (checked.diagnostics.ok()) std::printf("%s: OK (%s)\n", path.c_str(), checked.kind);
}

}  // namespace

int RunLint(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  const std::vector<FlagSpec> flags = {
      {"type", "", "TYPE", "type of the file, job or strategy (default: determined from the file)"},
      {"workers", "", "N", "number of workers of the job (default 1)"},
      {"rank", "", "R", "with --memory: rank whose memory is shown (default 0)"},
      {"memory", "", "", "print peak bytes before and after each pass, and the lower bound"},
      {"save", "", "FILE", "write the settings in canonical form (only with one FILE)"},
      kOutputFlag,
  };
  if (!ParseOrExplain("lint", kLintUsage, flags, args, &parsed, &exit_code)) return exit_code;
  const std::string type = parsed.Get("type");
  if (!type.empty() && type != "job" && type != "strategy") {
    return Fail("lint", InvalidArgument("--type: expected job or strategy, got \"%s\" [TD1006]%s",
                                        type, HintText(type, {"job", "strategy"})));
  }
  if (parsed.positional.empty()) {
    return Fail("lint",
                InvalidArgument("no file is named [TD1007]; hint: run tandem lint job.pbtxt"));
  }
  const auto workers = parsed.GetInt("workers", 1, 1, 65536);
  if (!workers.ok()) return Fail("lint", workers.status());
  const auto rank = parsed.GetInt("rank", 0, 0, *workers - 1);
  if (!rank.ok()) return Fail("lint", rank.status());
  if (parsed.Has("save") && parsed.positional.size() != 1) {
    return Fail(
        "lint",
        InvalidArgument(
            "--save needs exactly one file [TD1005]; hint: run tandem lint JOB --save=FILE"));
  }
  const StatusOr<bool> as_json = WantsJson(parsed);
  if (!as_json.ok()) return Fail("lint", as_json.status());
  FLAGS_minloglevel = google::GLOG_WARNING;  // the modes log at INFO what they do with a program
  Json all = Json::array();
  for (const std::string& path : parsed.positional) {
    const StatusOr<strategy::TextFile> file = strategy::ReadTextFile(path);
    if (!file.ok()) {
      exit_code = Fail("lint", file.status());
      continue;
    }
    const Checked checked = Check(*file, type, static_cast<int>(*workers));
    all.push_back(ToJson(path, checked));
    if (!*as_json) Print(path, checked);
    if (!checked.diagnostics.ok()) {
      exit_code = kExitUsage;
      continue;
    }
    if (parsed.Has("memory")) {
      const Status shown = ShowMemory(checked.kind, path, static_cast<int>(*workers),
                                      static_cast<int>(*rank), *as_json ? &all.back() : nullptr);
      if (!shown.ok()) exit_code = Fail("lint", shown);
    }
    if (!parsed.Has("save")) continue;
    const auto write = [&checked](const std::string& draft) {
      return WriteTextFile(draft, checked.canonical);
    };
    const Status saved = PublishFiles({{parsed.Get("save"), write}});
    if (!saved.ok()) exit_code = Fail("lint", saved);
  }
  if (*as_json) std::puts(all.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  return exit_code;
}

}  // namespace tandem::deploy
