#include "trainer/serving/model_version.h"

#include <cstring>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::trainer {
namespace {

constexpr Duration kWake = std::chrono::seconds(10);  // a waiting thread looks again
// Age of the values, besides 10 intervals, from which on a version is not ready.
constexpr Duration kStaleAfter = std::chrono::seconds(20);
constexpr int64_t kIdsMax = int64_t{4} << 20;  // limit of ps::Reader::ReadRows

const std::vector<double>& BatchBounds() {
  static const std::vector<double> bounds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return bounds;
}

Status Ending() { return Unavailable("this version of the model ends; hint: retry"); }

// Returns whether the caller does not wait any more. Answers the request then.
bool EndedEarly(const PredictRequest& request) {
  if (request.cancelled && request.cancelled()) {
    request.done(Cancelled("the caller cancelled the request"));
    return true;
  }
  if (SteadyNow() < request.deadline) return false;
  request.done(DeadlineExceeded(
      "the request waited for a thread until its deadline [TD7032]; hint: retry later, or raise "
      "--threads"));
  return true;
}

// Returns the first id of an input that is no row of its tables; nullopt: all ids are valid.
std::optional<int64_t> WrongId(std::span<const std::byte> input, const ServedTensor& of) {
  if (of.limit == 0) return std::nullopt;
  TD_REQUIRE(of.sample.dtype == DType::kI64);
  for (size_t at = 0; at < input.size(); at += sizeof(int64_t)) {
    int64_t id;
    std::memcpy(&id, input.data() + at, sizeof(id));  // the input may be unaligned
    if (id < 0 || id >= of.limit) return id;
  }
  return std::nullopt;
}

}  // namespace

StatusOr<std::unique_ptr<ModelVersion>> ModelVersion::Start(const graph::Program& forward,
                                                            std::vector<std::string> outputs,
                                                            std::unique_ptr<ModelSource> source,
                                                            const ServingOptions& options,
                                                            const std::string& role,
                                                            Metrics& metrics) {
  TD_REQUIRE(options.threads > 0 && options.batch_max > 0 && options.queue_max > 0);
  TD_ASSIGN_OR_RETURN(const auto dense, source->Dense());
  TD_ASSIGN_OR_RETURN(ServingProgram program,
                      ServingProgram::Make(forward, std::move(outputs), *dense));
  std::unique_ptr<ModelVersion> version(
      new ModelVersion(std::move(program), std::move(source), options, role, metrics));
  TD_RETURN_IF_ERROR(version->CheckBatch());
  TD_RETURN_IF_ERROR(version->CheckTables());
  TD_RETURN_IF_ERROR(version->PrepareScopes(*dense));
  version->StartThreads();
  return version;
}

void ModelVersion::StartThreads() {
  // The version that PrepareScopes has put into the scopes. The refresh may change it at once.
  const std::string version = values_version();
  for (int i = 0; i < options_.threads; ++i) {
    exec::Scope& scope = *scopes_[scopes_.size() == 1 ? 0 : static_cast<size_t>(i)];
    threads_.emplace_back([this, &scope, i, version] {
      SetThreadName("predict-" + std::to_string(i));
      Serve(scope, version);
    });
  }
  if (source_->fixed()) return;
  threads_.emplace_back([this] {
    SetThreadName("refresh");
    KeepFresh();
  });
}

ModelVersion::ModelVersion(ServingProgram program, std::unique_ptr<ModelSource> source,
                           const ServingOptions& options, const std::string& role, Metrics& metrics)
    : program_(std::move(program)),
      source_(std::move(source)),
      options_(options),
      numbers_{
          metrics.GetCounter("tandem_serve_samples_total", "samples predicted", {{"role", role}}),
          metrics.GetCounter("tandem_serve_batches_total", "batches computed", {{"role", role}}),
          metrics.GetCounter("tandem_serve_failed_refreshes_total",
                             "reads of the newest values that failed", {{"role", role}}),
          metrics.GetHistogram("tandem_serve_batch_samples", "samples of a computed batch",
                               BatchBounds(), {{"role", role}})} {}

Status ModelVersion::CheckBatch() const {
  for (const ServedTensor& input : program_.inputs) {
    const int64_t ids = input.limit == 0 ? 0 : options_.batch_max * input.sample.shape.numel();
    if (ids <= kIdsMax) continue;
    return InvalidArgument(
        "batch_max=%d: a batch has %d ids of input \"%s\", expected at most %d [TD1004]; hint: "
        "lower --batch_max",
        options_.batch_max, ids, input.name, kIdsMax);
  }
  return OkStatus();
}

Status ModelVersion::CheckTables() {
  for (const ServedTable& table : program_.tables) {
    std::vector<float> row(static_cast<size_t>(table.dim));
    const int64_t id = 0;
    float* const to = row.data();
    TD_RETURN_IF_ERROR(source_->ReadRows(table, {&id, 1}, {&to, 1}));
  }
  return OkStatus();
}

Status ModelVersion::PrepareScopes(const DenseValues& dense) {
  const bool shared = source_->fixed() && !program_.writes_stored();
  for (size_t i = 0; i < (shared ? 1 : static_cast<size_t>(options_.threads)); ++i) {
    scopes_.push_back(std::make_unique<exec::Scope>(host_));
    TD_RETURN_IF_ERROR(exec::Initialize(program_.program, /*seed=*/0, *scopes_.back()));
    program_.PutValues(dense, *scopes_.back());
  }
  MutexLock lock(mu_);
  dense_ = std::make_shared<DenseValues>(DenseValues{.version = dense.version});
  refreshed_ = SteadyNow();
  return OkStatus();
}

ModelVersion::~ModelVersion() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
    ended_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ModelVersion::Stop() {
  std::deque<PredictRequest> left;
  {
    MutexLock lock(mu_);
    ending_ = true;
    left.swap(waiting_);
    changed_.NotifyAll();
    ended_.NotifyAll();
  }
  for (const PredictRequest& request : left) request.done(Ending());
}

bool ModelVersion::ready() const {
  MutexLock lock(mu_);
  const Duration age = SteadyNow() - refreshed_;
  return !ending_ && (source_->fixed() || age < kStaleAfter + 10 * options_.refresh);
}

std::string ModelVersion::values_version() const {
  MutexLock lock(mu_);
  return dense_->version;
}

Status ModelVersion::Check(const PredictRequest& request) const {
  if (request.samples < 1 || request.samples > options_.batch_max) {
    return InvalidArgument(
        "the request has %d samples, expected 1 to %d [TD7031]; hint: send several requests, or "
        "raise --batch_max",
        request.samples, options_.batch_max);
  }
  if (request.inputs.size() != program_.inputs.size()) {
    return InvalidArgument("the request has %d inputs, but the model has %d [TD7031]",
                           request.inputs.size(), program_.inputs.size());
  }
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    const ServedTensor& input = program_.inputs[i];
    const size_t bytes = static_cast<size_t>(request.samples) * input.sample.bytes();
    if (request.inputs[i].size() != bytes) {
      return InvalidArgument(
          "input \"%s\" has %d bytes, but %d samples of %s have %d bytes [TD7031]", input.name,
          request.inputs[i].size(), request.samples, ToString(input.sample), bytes);
    }
    const std::optional<int64_t> wrong = WrongId(request.inputs[i], input);
    if (wrong) {
      return InvalidArgument("input \"%s\" has id %d, expected 0 to %d [TD7031]", input.name,
                             *wrong, input.limit - 1);
    }
  }
  return OkStatus();
}

void ModelVersion::Predict(PredictRequest request) {
  Status status = Check(request);
  if (status.ok()) {
    MutexLock lock(mu_);
    if (ending_) {
      status = Ending();
    } else if (waiting_.size() >= options_.queue_max) {
      status = ResourceExhausted(
          "%d requests wait already [TD7032]; hint: retry later, or raise --threads or --queue_max",
          waiting_.size());
    } else {
      waiting_.push_back(std::move(request));
      changed_.NotifyOne();
      return;
    }
  }
  request.done(status);
}

std::vector<PredictRequest> ModelVersion::TakeBatch() {
  MutexLock lock(mu_);
  while (!ending_ && waiting_.empty()) changed_.WaitUntil(mu_, SteadyNow() + kWake);
  std::vector<PredictRequest> batch;
  int64_t samples = 0;
  while (!waiting_.empty() && samples + waiting_.front().samples <= options_.batch_max) {
    samples += waiting_.front().samples;
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  // A notification may have been meant for requests that this thread did not take.
  if (!waiting_.empty()) changed_.NotifyOne();
  return batch;
}

void ModelVersion::Answer(Predictor& predictor, std::span<PredictRequest> batch,
                          const std::string& version) {
  StatusOr<std::vector<Prediction>> predictions = predictor.Run(batch);
  const StatusCode code = predictions.status().code();
  const bool by_request = code == StatusCode::kInvalidArgument || code == StatusCode::kOutOfRange;
  if (by_request && batch.size() > 1) {
    for (size_t i = 0; i < batch.size(); ++i) Answer(predictor, batch.subspan(i, 1), version);
    return;
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!predictions.ok()) {
      batch[i].done(predictions.status());
      continue;
    }
    (*predictions)[i].version = version;
    batch[i].done(std::move((*predictions)[i]));
  }
}

void ModelVersion::Serve(exec::Scope& scope, std::string used) {
  Predictor predictor(program_, scope, *source_);
  for (const int64_t samples : {int64_t{1}, options_.batch_max}) {
    const Status prepared = predictor.Prepare(samples);
    if (!prepared.ok())
      LOG(WARNING) << "a plan of " << samples << " samples: " << prepared.message();
  }
  while (true) {
    std::vector<PredictRequest> batch = TakeBatch();
    if (batch.empty()) return;
    std::erase_if(batch, [](const PredictRequest& request) { return EndedEarly(request); });
    if (batch.empty()) continue;
    std::shared_ptr<const DenseValues> newest;
    {
      MutexLock lock(mu_);
      newest = dense_;
    }
    if (used != newest->version) program_.PutValues(*newest, scope);
    used = newest->version;
    Answer(predictor, batch, used);
    int64_t samples = 0;
    for (const PredictRequest& request : batch) samples += request.samples;
    numbers_.batches.Add(1);
    numbers_.samples.Add(static_cast<double>(samples));
    numbers_.batch_samples.Observe(static_cast<double>(samples));
  }
}

void ModelVersion::KeepFresh() {
  while (true) {
    {
      MutexLock lock(mu_);
      const Time next = SteadyNow() + options_.refresh;
      while (!ending_ && SteadyNow() < next) ended_.WaitUntil(mu_, next);
      if (ending_) return;
    }
    const StatusOr<std::shared_ptr<const DenseValues>> newest = source_->Dense();
    Status status = newest.status();
    if (status.ok()) status = program_.CheckValues(**newest);
    if (!status.ok()) {
      numbers_.failed_refreshes.Add(1);
      LOG_EVERY_N(WARNING, 60) << "the newest dense values cannot be read, the values of "
                               << values_version() << " stay in use: " << status.message();
      continue;
    }
    MutexLock lock(mu_);
    refreshed_ = SteadyNow();
    if ((*newest)->version != dense_->version) dense_ = *newest;
  }
}

}  // namespace tandem::trainer
