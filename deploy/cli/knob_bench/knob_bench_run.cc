#include "deploy/cli/knob_bench/knob_bench_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/strategy/knobs.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/launch_job.h"

namespace tandem::deploy {
namespace {

std::vector<std::string> LaunchArgs(BenchLaunch launch) {
  switch (launch) {
    case BenchLaunch::kLocal:
      return {"--mode=local"};
    case BenchLaunch::kTwoRanks:
      return {"--mode=collective", "--nproc=2"};
    case BenchLaunch::kFourRanks:
      return {"--mode=collective", "--nproc=4"};
    case BenchLaunch::kPserver:
      return {"--servers=2", "--workers=2"};
  }
  return {};
}

const char* ModeOf(BenchLaunch launch) {
  if (launch == BenchLaunch::kLocal) return "LOCAL";
  return launch == BenchLaunch::kPserver ? "PSERVER" : "COLLECTIVE";
}

struct BenchJob {
  std::string name, file;
  int steps = 0;
};

// Returns the measured job: the user's job, or a job in the work directory with the row's network.
StatusOr<BenchJob> JobOf(const KnobBench& row, const KnobBenchOptions& options) {
  // Steps per run: the default for the user's job, the minimum and the maximum. The maximum is
  // RunHistory::kRunsMax, because the history must contain all steps of a run.
  constexpr int kUserSteps = 50, kStepsMin = 8, kStepsMax = 1000;
  const auto steps = [&](int normal) {
    return std::clamp(static_cast<int>(normal * options.length), kStepsMin, kStepsMax);
  };
  if (!options.job.empty()) return BenchJob{options.job, options.job, steps(kUserSteps)};
  const std::string name = options.network.empty() ? row.network : options.network;
  TD_ASSIGN_OR_RETURN(const BenchNetwork* network, FindBenchNetwork(name));
  const std::string path = options.dir + "/" + network->name + ".pbtxt";
  TD_RETURN_IF_ERROR(WriteTextFile(path, network->job));
  return BenchJob{name, path, steps(row.steps > 0 ? row.steps : network->steps)};
}

std::string DefaultOf(const std::string& knob) {
  for (const strategy::KnobInfo& info : strategy::ListKnobs()) {
    if (info.path == knob) return info.default_value.empty() ? "none" : info.default_value;
  }
  return "";
}

// Returns the mean seconds of a step, without the first quarter of the runs in the history.
double MeanStep(const nlohmann::json& history) {
  const auto seconds = history.at("seconds").get<std::vector<double>>();
  const auto steps = history.at("steps").get<std::vector<double>>();
  double sum = 0, count = 0;
  for (size_t i = seconds.size() / 4; i < seconds.size() && i < steps.size(); ++i) {
    sum += seconds[i];
    count += steps[i];
  }
  return count > 0 ? sum / count : 0;
}

// Runs the job once. CANCELLED: a signal ended the job (an exit code of 128 or more).
StatusOr<KnobRun> RunOnce(const KnobBench& row, const KnobBenchOptions& options,
                          const BenchJob& job, bool changed) {
  JobLaunch launch;
  launch.name = "tandem bench";
  launch.job_file = job.file;
  launch.dir = options.dir + "/run";
  launch.launch_args = LaunchArgs(row.launch);
  launch.pserver_bin = options.pserver_bin;
  launch.trainer_bin = options.trainer_bin;
  launch.quiet = launch.only_stderr = true;
  // The settings of the row follow these arguments and may override them. The knob is the last
  // setting.
  launch.trainer_args = {absl::StrFormat("--mode=%s", ModeOf(row.launch)),
                         absl::StrFormat("--steps_max=%d", job.steps),
                         "--epochs=1000000",
                         "--eval_every_epochs=0",
                         "--log_every_steps=1",
                         "--log_format=plain",
                         "--checkpoint.dir=",
                         "--data.shuffle=false"};
  for (const char* setting : row.with) {
    launch.trainer_args.push_back("--" + absl::StrReplaceAll(setting, {{"{dir}", options.dir}}));
  }
  const char* value = changed ? row.changed : row.from;
  if (value != nullptr) {
    launch.trainer_args.push_back(absl::StrFormat("--strategy.%s=%s", row.knob, value));
  }
  for (const char* setting : row.also) {
    if (changed) launch.trainer_args.push_back(std::string("--") + setting);
  }
  std::error_code error;
  std::filesystem::remove_all(launch.dir, error);
  TD_ASSIGN_OR_RETURN(const int code, RunJob(launch));
  if (code >= 128 && code != kExitLostPeer)
    return Cancelled("the measurement was stopped by a signal");
  if (code != 0) {
    return Internal("the job %s failed with exit code %d (see its output above)",
                    changed ? "with the changed value" : "at the default", code);
  }
  return ReadKnobRun(launch.ResultFile());
}

}  // namespace

double KnobRun::Count(const std::string& name) const {
  const auto it = counts.find(name);
  return it == counts.end() ? 0 : it->second;
}

StatusOr<KnobRun> ReadKnobRun(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("the trainer wrote no result file %s", path);
  KnobRun run;
  try {
    const nlohmann::json json = nlohmann::json::parse(file);
    run.counts = json.at("counts").get<std::map<std::string, double>>();
    run.peak_bytes = run.Count("peak_bytes");
    const nlohmann::json& history = json.at("history");
    run.step_seconds = MeanStep(history);
    const auto steps = history.at("step").get<std::vector<int64_t>>();
    for (size_t i = 0; i < steps.size(); ++i) {
      const nlohmann::json& loss = history.at("loss").at(i);
      if (!loss.is_null()) run.loss[steps[i]] = run.counts["loss"] = loss.get<double>();
    }
  } catch (const nlohmann::json::exception& e) {
    return DataLoss("%s is not a result file of a trainer: %s", path, e.what());
  }
  return run;
}

bool KnobResult::CounterMoved() const {
  TD_REQUIRE(row != nullptr);
  return at_default.Count(row->counter) != changed.Count(row->counter);
}

bool KnobResult::SameLosses() const {
  return std::all_of(at_default.loss.begin(), at_default.loss.end(), [this](const auto& entry) {
    const auto it = changed.loss.find(entry.first);
    return it == changed.loss.end() || it->second == entry.second;
  });
}

double KnobResult::LossDifference() const {
  double scale = 0, largest = 0;
  for (const auto& [step, loss] : at_default.loss) {
    const auto it = changed.loss.find(step);
    if (step >= kComparedSteps || it == changed.loss.end()) continue;
    scale = std::max({scale, std::abs(loss), std::abs(it->second)});
    largest = std::max(largest, std::abs(loss - it->second));
  }
  return scale > 0 ? largest / scale : 0;
}

std::string KnobResult::Problem() const {
  if (!status.ok()) return std::string(status.message());
  const double difference = LossDifference();
  if (row->tolerance == kSameBits && !SameLosses()) {
    return absl::StrFormat("the losses differ by %.2g, expected equal bits", difference);
  }
  if (row->tolerance > 0 && difference > row->tolerance) {
    return absl::StrFormat("the losses differ by %.2g, expected at most %.2g", difference,
                           row->tolerance);
  }
  if (own_network && row->counter[0] != '\0' && !CounterMoved()) {
    return absl::StrFormat("counter %s did not change", row->counter);
  }
  return "";
}

StatusOr<KnobResult> BenchKnob(const KnobBench& row, const KnobBenchOptions& options,
                               const std::function<void(const std::string&)>& progress) {
  TD_REQUIRE(options.rounds > 0 && options.length > 0);
  KnobResult result;
  result.row = &row;
  result.default_value = row.from != nullptr ? row.from : DefaultOf(row.knob);
  result.own_network = options.job.empty() && options.network.empty();
  TD_ASSIGN_OR_RETURN(const BenchJob job, JobOf(row, options));
  result.network = job.name;
  result.steps = job.steps;
  for (int round = 0; round < options.rounds; ++round) {
    // The order of the two settings alternates between rounds, so that a change of the machine's
    // speed favours neither setting.
    for (const bool changed : {round % 2 != 0, round % 2 == 0}) {
      progress(absl::StrFormat("round %d of %d, %s", round + 1, options.rounds,
                               changed ? "changed" : "default"));
      StatusOr<KnobRun> run = RunOnce(row, options, job, changed);
      if (run.status().code() == StatusCode::kCancelled) return run.status();
      if (!run.ok()) {
        result.status = run.status();
        return result;
      }
      (changed ? result.changed : result.at_default) = *std::move(run);
    }
    result.ratios.push_back(result.changed.step_seconds / result.at_default.step_seconds);
  }
  return result;
}

}  // namespace tandem::deploy
