#include "trainer/tune/auto_tune.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collective/host/connect.h"
#include "common/os/files.h"
#include "common/strategy/strategy.h"
#include "proto/job.pb.h"
#include "trainer/modes/rank_world.h"
#include "trainer/session/plan_options.h"
#include "trainer/tune/tuner.h"

namespace tandem::trainer {
namespace {

constexpr double kTrialSeconds = 0.4;  // duration of the measured steps of a trial in seconds
constexpr int kStepsMax = 200;

// Returns whether the job uses no servers. A trial with servers would change the state of the
// servers.
bool WithoutServers(const JobConfig& job) {
  return job.mode() == LOCAL || job.mode() == COLLECTIVE;
}

// Returns the settings to try. With servers, returns only settings that may differ between ranks.
std::vector<Tunable> TunablesOf(const JobConfig& job, const RankInfo& rank) {
  std::vector<Settings> threads;
  for (int n = 1; n < ThreadsOf(job, rank); n *= 2) {
    threads.push_back({{"threads", std::to_string(n)}});
  }
  std::vector<Tunable> tunables;
  if (!threads.empty()) tunables.push_back({"kernel threads", std::move(threads)});
  tunables.push_back({"operators", {{{"use_mkldnn", "false"}}}});
  tunables.push_back({"fusion",
                      {{{"fuse_elewise_add_act_ops", "true"}, {"fuse_bn_act_ops", "true"}},
                       {{"enable_auto_fusion", "true"}}}});
  if (!WithoutServers(job)) return tunables;
  tunables.push_back({"optimizer", {{{"fuse_all_optimizer_ops", "true"}}}});
  tunables.push_back({"precision", {{{"amp", "true"}}}});
  tunables.push_back({"convolutions", {{{"cudnn_exhaustive_search", "true"}}}});
  if (rank.size > 1) {
    tunables.push_back({"gradient buckets",
                        {{{"fuse_grad_size_in_MB", "1"}},
                         {{"fuse_grad_size_in_MB", "8"}},
                         {{"fuse_grad_size_in_MB", "128"}}}});
  }
  const DistributedStrategy& strategy = job.strategy();
  const bool memory_is_shared = rank.local_size == rank.size &&
                                strategy.collective_transport() != DistributedStrategy::Tcp &&
                                !strategy.use_hierarchical_allreduce();
  if (rank.size > 1 && !memory_is_shared) {
    tunables.push_back({"allreduce algorithms", {{{"allreduce_choice", "ByModel"}}}});
  }
  return tunables;
}

// Removes the choices that would not change the job: the job already sets the setting to this
// value, or `auto` must not change the setting.
Status KeepEffective(const JobSources& sources, int workers, std::vector<Tunable>* tunables) {
  TD_ASSIGN_OR_RETURN(const EffectiveJob plain, LoadJob(sources, workers));
  const std::string text = strategy::SaveText(*plain.config);
  const auto without_effect = [&](const Settings& choice) {
    JobSources with = sources;
    with.chosen = choice;
    const StatusOr<EffectiveJob> job = LoadJob(with, workers);
    return job.ok() && strategy::SaveText(*job->config) == text;
  };
  for (Tunable& t : *tunables) std::erase_if(t.choices, without_effect);
  std::erase_if(*tunables, [](const Tunable& t) { return t.choices.empty(); });
  return OkStatus();
}

// ---- Agreement of the ranks on the result of a trial --------------------------------------------

class TrialBarrier {
 public:
  // Connects the ranks. If `common` has only one rank, does nothing.
  static StatusOr<TrialBarrier> Meet(const CommonOptions& common, const WorldOptions& options) {
    TrialBarrier council;
    if (common.ranks == 1) return council;
    collective::HostCommunicatorConfig calls;
    calls.operation_timeout = common.start_timeout + common.step_timeout;
    TD_ASSIGN_OR_RETURN(council.ranks_,
                        collective::Connect(WorldOf(common, options, nullptr), calls,
                                            {collective::TransportKind::kTcp}));
    // Without the barrier, a rank could join the communicator of a trial before rank 0 has closed
    // the rendezvous of `council`.
    TD_RETURN_IF_ERROR(council.ranks_->Barrier({.what = "auto"})->Wait(Time::max()));
    return council;
  }

  // Returns the time of the slowest rank. Returns a skipped result if any rank skipped the trial.
  StatusOr<TrialResult> Agree(TrialResult mine) {
    if (ranks_ == nullptr) return mine;
    constexpr int64_t kSkipped = std::numeric_limits<int64_t>::max();
    int64_t time = mine.skipped.empty() ? std::llround(mine.seconds * 1e9) : kSkipped;
    TD_RETURN_IF_ERROR(
        ranks_->AllReduce(&time, &time, 1, DType::kI64, ReduceOp::kMax, {.what = "auto"})
            ->Wait(Time::max()));
    if (time == kSkipped && mine.skipped.empty()) mine.skipped = "another rank cannot measure it";
    mine.seconds = static_cast<double>(time) * 1e-9;
    return mine;
  }

  // Returns the `text` of rank 0 on all ranks. `text` may have up to 4095 bytes.
  StatusOr<std::string> OfLeader(const std::string& text) {
    if (ranks_ == nullptr) return text;
    std::vector<char> page(4096);
    std::memcpy(page.data(), text.data(), std::min(text.size(), page.size() - 1));
    TD_RETURN_IF_ERROR(ranks_->Broadcast(page.data(), page.size(), DType::kU8, 0, {.what = "auto"})
                           ->Wait(Time::max()));
    return std::string(page.data());
  }

 private:
  std::unique_ptr<collective::Communicator> ranks_;
};

// ---- Trials of settings -------------------------------------------------------------------------

class JobTrials {
 public:
  JobTrials(const AutoTuneContext& context, TrialBarrier& council, StopSwitch& stop,
            const Clock& clock)
      : context_(context), council_(council), stop_(stop), clock_(clock) {}

  // Measures a step with `settings`. The first trial also sets the number of steps of a trial.
  StatusOr<TrialResult> Try(const Settings& settings) {
    if (steps_ == 0) {
      steps_ = 2;
      TD_ASSIGN_OR_RETURN(const TrialResult first, TryOnce(settings));
      if (!first.skipped.empty()) return first;
      const double steps = kTrialSeconds / std::max(first.seconds, 1e-9);
      steps_ = static_cast<int>(std::clamp<double>(steps, 2, kStepsMax));
    }
    return TryOnce(settings);
  }

 private:
  StatusOr<TrialResult> TryOnce(const Settings& settings) {
    const StatusOr<double> seconds = Run(settings);
    // A loss of ranks ends the search, because no other setting can prevent it.
    const StatusCode code = seconds.status().code();
    if (code == StatusCode::kCancelled || code == StatusCode::kAborted ||
        code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded) {
      return seconds.status();
    }
    TrialResult mine;
    if (seconds.ok()) {
      mine.seconds = *seconds;
    } else {
      const std::string message(seconds.status().message());
      mine.skipped = message.substr(0, message.find('\n'));
    }
    return council_.Agree(std::move(mine));
  }

  // Returns the mean time of a step in seconds, without the first step.
  StatusOr<double> Run(const Settings& settings) {
    JobSources sources = context_.sources;
    sources.chosen = settings;
    TD_ASSIGN_OR_RETURN(const EffectiveJob job, LoadJob(sources, context_.session.rank.size));
    SessionOptions options = context_.session;
    JobConfig& config = *job.config;
    MakeTrial(config, options.rank);
    options.sink = [](std::string_view) {};
    options.board = nullptr;
    TD_ASSIGN_OR_RETURN(const auto places,
                        LocalReplicas::Make(config, std::move(options), context_.secrets, clock_));
    TD_ASSIGN_OR_RETURN(const SessionResult result, stop_.Run(*places));
    double seconds = 0;
    int64_t steps = 0;
    for (const RunHistory::Entry& run : result.history.entries()) {
      // Skips the run that has the first step of the trial.
      if (run.step + 1 == run.steps) continue;
      seconds += run.seconds;
      steps += run.steps;
    }
    return seconds / static_cast<double>(std::max<int64_t>(steps, 1));
  }

  // Changes the job to a trial, which repeats the first batch of the job. A trial reads no other
  // data, evaluates nothing and writes no files.
  void MakeTrial(JobConfig& config, RankInfo& rank) const {
    DistributedStrategy& strategy = *config.mutable_strategy();
    config.clear_checkpoint();
    config.clear_profile();
    config.clear_verify_replay();
    config.clear_param_checksums();
    config.mutable_optimizer()->clear_schedule();
    strategy.mutable_build_strategy()->clear_debug_graphviz_path();
    strategy.mutable_runtime_flags()->clear_pe_profile_fname();
    strategy.mutable_runtime_flags()->set_reader_queue_speed_test_mode(true);
    const int run = strategy.execution_strategy().num_iteration_per_run();
    config.set_epochs(1 << 20);
    config.set_steps_max((1 + (steps_ + run - 1) / run) * run);
    if (WithoutServers(config)) return;
    config.set_batch_size(GlobalBatch(config, rank.size) / rank.size);
    config.clear_global_batch_size();
    config.set_mode(LOCAL);
    rank.rank = 0;
    rank.size = 1;
  }

  const AutoTuneContext& context_;
  TrialBarrier& council_;
  StopSwitch& stop_;
  const Clock& clock_;
  int steps_ = 0;  // number of measured steps of a trial; 0: not determined
};

// ---- The stored choice, in the directory of the checkpoints -------------------------------------

constexpr uint64_t kChoiceBytesMax = 1 << 20;
constexpr char kNothing[] = "nothing\n";  // content of the file if no setting was chosen

// Returns the stored choice; "": no choice is stored.
std::string ReadChoice(const std::string& path) {
  return ReadSmallFile(path, kChoiceBytesMax).value_or("");
}

Status WriteChoice(const std::string& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  // A later run would use a part of the settings if the file were incomplete.
  const auto write = [&text](const std::string& draft) { return WriteTextFile(draft, text); };
  return Annotate(PublishFiles({{path, write}}), "cannot save the settings that auto chose");
}

std::string ToLines(const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings) absl::StrAppend(&text, name, "=", value, "\n");
  return text.empty() ? kNothing : text;
}

StatusOr<Settings> FromLines(const std::string& path, const std::string& text) {
  Settings settings;
  if (text == kNothing) return settings;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const size_t eq = line.find('=');
    if (eq == std::string::npos)
      return DataLoss(
          "%s: \"%s\" is not a setting; hint: remove the file to measure the settings again", path,
          line);
    settings.emplace_back(line.substr(0, eq), line.substr(eq + 1));
  }
  return settings;
}

// Returns the path of the file with the stored choice; "": the choice is not stored, because the
// job has no checkpoints, or because each trainer chooses separately.
std::string ChoicePath(const AutoTuneContext& context, const JobConfig& job) {
  const std::string& dir = job.checkpoint().dir();
  if (dir.empty() || !WithoutServers(job)) return "";
  return InJobDir(context.session.job_dir, dir) + "/auto_choice";
}

}  // namespace

StatusOr<Settings> AutoTune(const AutoTuneContext& context, const JobConfig& job, StopSwitch& stop,
                            const Clock& clock) {
  const RankInfo& rank = context.session.rank;
  TrialBarrier council;
  if (job.mode() == COLLECTIVE) {
    TD_ASSIGN_OR_RETURN(council, TrialBarrier::Meet(CommonOptionsOf(job, rank, context.secrets),
                                                    WorldOptionsOf(job, rank)));
  }
  const bool leader = rank.rank == 0;
  const std::string path = ChoicePath(context, job);
  if (!path.empty()) {
    TD_ASSIGN_OR_RETURN(
        const std::string kept,
        council.OfLeader(leader && job.checkpoint().resume() ? ReadChoice(path) : ""));
    if (!kept.empty()) {
      TD_ASSIGN_OR_RETURN(Settings before, FromLines(path, kept));
      if (leader)
        context.tell(absl::StrFormat("settings read from %s: %s", path, ToString(before)));
      return before;
    }
  }
  std::vector<Tunable> tunables = TunablesOf(job, rank);
  TD_RETURN_IF_ERROR(KeepEffective(context.sources, rank.size, &tunables));
  JobTrials trials(context, council, stop, clock);
  TunerOptions options;
  options.tell = leader ? context.tell : [](const std::string&) {};
  TD_ASSIGN_OR_RETURN(
      Settings chosen,
      Tune(
          tunables, [&trials](const Settings& settings) { return trials.Try(settings); }, options));
  if (leader && !path.empty()) TD_RETURN_IF_ERROR(WriteChoice(path, ToLines(chosen)));
  return chosen;
}

}  // namespace tandem::trainer
