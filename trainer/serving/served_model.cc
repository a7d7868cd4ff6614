#include "trainer/serving/served_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/threads/runner.h"
#include "trainer/serving/checkpoint_source.h"

namespace tandem::trainer {
namespace {

constexpr uint64_t kLiveNumber = 0;
constexpr char kAnswering[] = "answering";  // role of a version that answers requests
// Pause before a checkpoint that could not be loaded is tried again.
constexpr Duration kRetryPause = std::chrono::seconds(60);

// Returns the largest difference between two results of the same request, over all f32 outputs.
// Infinity: one of two values is not a number.
double LargestDifference(const ServingProgram& program, const Prediction& one,
                         const Prediction& other) {
  double largest = 0;
  for (size_t i = 0; i < std::min(one.outputs.size(), other.outputs.size()); ++i) {
    if (program.outputs[i].sample.dtype != DType::kF32) continue;
    const size_t bytes = std::min(one.outputs[i].size(), other.outputs[i].size());
    for (size_t at = 0; at + sizeof(float) <= bytes; at += sizeof(float)) {
      float a, b;
      std::memcpy(&a, one.outputs[i].data() + at, sizeof(a));
      std::memcpy(&b, other.outputs[i].data() + at, sizeof(b));
      if (std::isnan(a) && std::isnan(b)) continue;
      const double difference = std::abs(double{a} - double{b});
      largest = std::isnan(difference) ? HUGE_VAL : std::max(largest, difference);
    }
  }
  return largest;
}

}  // namespace

StatusOr<std::unique_ptr<ServedModel>> ServedModel::Start(ModelSpec spec,
                                                          std::unique_ptr<ModelSource> live,
                                                          Metrics& metrics) {
  TD_REQUIRE(spec.keep > 0 && (live != nullptr) == spec.checkpoints.empty());
  std::unique_ptr<ServedModel> model(new ServedModel(std::move(spec), metrics));
  ServedModel* const self = model.get();
  if (live != nullptr) {
    TD_ASSIGN_OR_RETURN(
        auto version, ModelVersion::Start(self->spec_.forward, self->spec_.outputs, std::move(live),
                                          self->spec_.options, kAnswering, metrics));
    MutexLock lock(self->mu_);
    self->versions_[kLiveNumber] = std::move(version);
    return model;
  }
  if (self->spec_.shadow) {
    TD_ASSIGN_OR_RETURN(self->shadow_, self->Load(*self->spec_.shadow, "shadow"));
  }
  TD_RETURN_IF_ERROR(self->LoadNewest());
  self->watcher_ = std::thread([self] {
    SetThreadName("checkpoints");
    self->WatchCheckpoints();
  });
  return model;
}

ServedModel::ServedModel(ModelSpec spec, Metrics& metrics)
    : spec_(std::move(spec)),
      metrics_(metrics),
      differences_(metrics.GetHistogram(
          "tandem_serve_shadow_difference",
          "largest difference between an output of the shadow version and the answer",
          {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100})),
      failed_loads_(metrics.GetCounter("tandem_serve_failed_refreshes_total",
                                       "reads of the newest values that failed",
                                       {{"role", kAnswering}})),
      failed_shadows_(metrics.GetCounter("tandem_serve_failed_shadows_total",
                                         "requests that the shadow version did not compute")) {}

ServedModel::~ServedModel() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    ended_.NotifyAll();
  }
  if (watcher_.joinable()) watcher_.join();
}

void ServedModel::Stop() {
  std::vector<std::shared_ptr<ModelVersion>> all = {shadow_};
  {
    MutexLock lock(mu_);
    ending_ = true;
    ended_.NotifyAll();
    for (const auto& [number, version] : versions_) all.push_back(version);
  }
  for (const auto& version : all) {
    if (version != nullptr) version->Stop();
  }
}

bool ServedModel::ready() const {
  MutexLock lock(mu_);
  return !ending_ && !versions_.empty() && versions_.rbegin()->second->ready();
}

std::vector<std::string> ServedModel::versions() const {
  MutexLock lock(mu_);
  std::vector<std::string> names;
  for (const auto& [number, version] : versions_) {
    names.push_back(NameOf(number));
  }
  return names;
}

std::string ServedModel::NameOf(uint64_t number) const {
  return spec_.checkpoints.empty() ? kLiveVersion : std::to_string(number);
}

StatusOr<ServedModel::Chosen> ServedModel::Choose(const std::string& version) const {
  {
    MutexLock lock(mu_);
    TD_REQUIRE(!versions_.empty());
    if (version.empty()) {
      const auto& [number, newest] = *versions_.rbegin();
      return Chosen{NameOf(number), true, newest};
    }
    for (const auto& [number, loaded] : versions_) {
      if (NameOf(number) == version) return Chosen{version, false, loaded};
    }
  }
  return NotFound("model \"%s\" has no version \"%s\", its versions are: %s [TD7033]", spec_.name,
                  version, absl::StrJoin(versions(), ", "));
}

StatusOr<std::shared_ptr<ModelVersion>> ServedModel::Load(uint64_t step, const std::string& role) {
  const Time begin = SteadyNow();
  const std::string path = absl::StrFormat("%s/step-%08d", spec_.checkpoints, step);
  TD_ASSIGN_OR_RETURN(auto source, CheckpointSource::Load(path));
  if (source->job() != spec_.name) {
    LOG(WARNING) << path << " is a checkpoint of job " << source->job()
                 << ", but the job file is of " << spec_.name;
  }
  TD_ASSIGN_OR_RETURN(auto version,
                      ModelVersion::Start(spec_.forward, spec_.outputs, std::move(source),
                                          spec_.options, role, metrics_));
  LOG(INFO) << "model " << spec_.name << ": version " << step << " is loaded in "
            << Seconds(SteadyNow() - begin) << " s";
  return std::shared_ptr<ModelVersion>(std::move(version));
}

Status ServedModel::LoadNewest() {
  TD_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps,
                      CheckpointStore(spec_.checkpoints, 1).Steps());
  Status error =
      NotFound("%s contains no checkpoint [TD7030]; hint: name the checkpoint.dir of a job",
               spec_.checkpoints);
  int wanted = spec_.keep;
  std::vector<std::shared_ptr<ModelVersion>> old;  // these end without the lock
  for (auto step = steps.rbegin(); step != steps.rend() && wanted > 0; ++step) {
    {
      MutexLock lock(mu_);
      if (ending_) return OkStatus();
      if (versions_.contains(*step)) {
        --wanted;
        continue;
      }
    }
    const auto failed = failed_.find(*step);
    if (failed != failed_.end() && SteadyNow() < failed->second + kRetryPause) continue;
    auto version = Load(*step, kAnswering);
    if (!version.ok()) {
      error = version.status();
      failed_[*step] = SteadyNow();
      failed_loads_.Add(1);
      LOG(WARNING) << "model " << spec_.name << ": step " << *step
                   << " cannot be loaded: " << error.message();
      continue;
    }
    failed_.erase(*step);
    --wanted;
    MutexLock lock(mu_);
    versions_[*step] = *std::move(version);
    // Under the same lock, so that no caller sees more versions than `keep`.
    while (std::ssize(versions_) > spec_.keep) {
      old.push_back(std::move(versions_.begin()->second));
      versions_.erase(versions_.begin());
    }
  }
  std::erase_if(
      failed_, [&](const auto& one) { return std::ranges::find(steps, one.first) == steps.end(); });
  MutexLock lock(mu_);
  return versions_.empty() ? error : OkStatus();
}

void ServedModel::WatchCheckpoints() {
  while (true) {
    {
      MutexLock lock(mu_);
      const Time next = SteadyNow() + spec_.options.refresh;
      while (!ending_ && SteadyNow() < next) ended_.WaitUntil(mu_, next);
      if (ending_) return;
    }
    const Status status = LoadNewest();
    if (status.ok()) continue;
    failed_loads_.Add(1);
    LOG_EVERY_N(WARNING, 60) << "model " << spec_.name
                             << ": the checkpoints cannot be listed, versions "
                             << absl::StrJoin(versions(), ", ")
                             << " stay in use: " << status.message();
  }
}

void ServedModel::AddShadow(const std::shared_ptr<ModelVersion>& shadow,
                            PredictRequest* request) const {
  // The memory of the inputs may end with the answer.
  auto copies = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (const auto& input : request->inputs) copies->emplace_back(input.begin(), input.end());
  request->done = [done = std::move(request->done), samples = request->samples, copies,
                   to = std::weak_ptr(shadow), this](StatusOr<Prediction> answer) {
    const std::shared_ptr<ModelVersion> version = to.lock();
    if (!answer.ok() || version == nullptr) return done(std::move(answer));
    PredictRequest again;
    again.samples = samples;
    for (const auto& input : *copies) again.inputs.emplace_back(input);
    again.done = [copies, first = *answer, this,
                  &program = version->program()](const StatusOr<Prediction>& second) {
      if (!second.ok()) return failed_shadows_.Add(1);
      differences_.Observe(LargestDifference(program, first, *second));
    };
    done(std::move(answer));
    version->Predict(std::move(again));
  };
}

void ServedModel::Predict(const Chosen& chosen, PredictRequest request) const {
  TD_REQUIRE(chosen.version != nullptr);
  if (chosen.by_default && shadow_ != nullptr) AddShadow(shadow_, &request);
  chosen.version->Predict(std::move(request));
}

}  // namespace tandem::trainer
