#include <cstdio>
#include <fstream>

#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "proto/job.pb.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "tandem lint FILE...    checks job files and saved strategies: every error of a file at once,\n"
    "                       with line, column and the nearest name; exit code 2 when there is "
    "one\n";

struct Checked {
  const char* kind = "";
  Diagnostics diagnostics;
  std::string canonical;  // SaveText of what was read
};

Checked CheckJob(const TextFile& file) {
  Checked checked;
  checked.kind = "job";
  JobConfig job;
  Origins origins;
  ParseTextProto(file, &job, &origins, &checked.diagnostics);
  StrategyContext context;
  context.mode = static_cast<TrainMode>(job.mode());
  context.mode_origin = origins.Of("mode");
  ValidateStrategy(job.strategy(), context, origins, "strategy", &checked.diagnostics);
  checked.canonical = SaveText(job);
  return checked;
}

// The mode that a saved strategy states, else the one that its contents are about.
TrainMode ModeOf(const DistributedStrategy& strategy) {
  if (strategy.has_mode()) return static_cast<TrainMode>(strategy.mode());
  if (strategy.a_sync()) return TrainMode::kPserver;
  return TrainMode::kCollective;
}

Checked CheckStrategy(const TextFile& file) {
  Checked checked;
  checked.kind = "strategy";
  DistributedStrategy strategy;
  Origins origins;
  ParseTextProto(file, &strategy, &origins, &checked.diagnostics);
  StrategyContext context;
  context.mode = ModeOf(strategy);
  context.mode_origin = origins.Of("mode");
  ValidateStrategy(strategy, context, origins, "", &checked.diagnostics);
  checked.canonical = SaveText(strategy);
  return checked;
}

// `type`: job, strategy, or "" for whichever the file fits better.
Checked Check(const TextFile& file, const std::string& type) {
  if (type == "strategy") return CheckStrategy(file);
  Checked job = CheckJob(file);
  if (type == "job" || job.diagnostics.ok()) return job;
  Checked strategy = CheckStrategy(file);
  return strategy.diagnostics.errors() < job.diagnostics.errors() ? std::move(strategy)
                                                                  : std::move(job);
}

Status Save(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return PermissionDenied("cannot write %s", path);
  return OkStatus();
}

}  // namespace

int RunLint(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  const std::vector<FlagSpec> flags = {
      {"type", "", "TYPE", "job or strategy; else what the file fits better"},
      {"save", "", "FILE", "write what was read in its canonical form (one FILE only)"},
  };
  if (!ParseOrExplain("lint", kUsage, flags, args, &parsed, &exit_code)) return exit_code;
  const std::string type = parsed.Get("type");
  if (type != "" && type != "job" && type != "strategy") {
    return Fail("lint", InvalidArgument("--type: expected job or strategy, got \"%s\"", type));
  }
  if (parsed.positional.empty()) return Fail("lint", InvalidArgument("no file given"));
  if (parsed.Has("save") && parsed.positional.size() != 1) {
    return Fail("lint", InvalidArgument("--save needs exactly one file"));
  }
  for (const std::string& path : parsed.positional) {
    const StatusOr<TextFile> file = ReadTextFile(path);
    if (!file.ok()) {
      exit_code = Fail("lint", file.status());
      continue;
    }
    const Checked checked = Check(*file, type);
    std::fputs(checked.diagnostics.NoteText().c_str(), stderr);
    if (!checked.diagnostics.ok()) {
      std::fputs(checked.diagnostics.ErrorText().c_str(), stderr);
      exit_code = kExitUsage;
      continue;
    }
    std::printf("%s: OK (%s)\n", path.c_str(), checked.kind);
    if (!parsed.Has("save")) continue;
    const Status saved = Save(parsed.Get("save"), checked.canonical);
    if (!saved.ok()) exit_code = Fail("lint", saved);
  }
  return exit_code;
}

}  // namespace tandem::deploy
