// Computes predictions of batches with the executor of training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"
#include "trainer/ps/row_prefetch.h"
#include "trainer/serving/model_source.h"
#include "trainer/serving/serving_program.h"

namespace tandem::trainer {

// The result for one request: by output, its elements as bytes, [samples, ...].
struct Prediction {
  std::vector<std::vector<std::byte>> outputs;
  std::string version;  // DenseValues::version of the values that were used
};

// One request: predictions of `samples` samples.
struct PredictRequest {
  int64_t samples = 0;
  // By input of the model: [samples, ...], as bytes. The memory must exist until `done` is called.
  std::vector<std::span<const std::byte>> inputs;
  // The request fails with DEADLINE_EXCEEDED if no thread has taken it until then.
  Time deadline = Time::max();
  std::function<bool()> cancelled;  // returns whether the caller is gone; null: never
  // Called once, on any thread.
  std::function<void(StatusOr<Prediction>)> done;
};

// One thread's executor of a model. Several predictors may share a scope. Not thread-safe.
class Predictor {
 public:
  // All arguments must outlive the predictor. `scope` must have the program's variables
  // (exec::Initialize), and not change during Run.
  Predictor(const ServingProgram& model, exec::Scope& scope, ModelSource& source)
      : model_(model), scope_(scope), source_(source), rows_(kRowTimeout, RowPull()) {}

  // Prepares the plan for `samples` samples, so that the first request does not wait for it.
  Status Prepare(int64_t samples) { return PlanFor(samples).status(); }
  // Computes the predictions of all requests as one batch, and returns them in order. REQUIRES: the
  // inputs have the sizes of the model's inputs, and ids are below their limits. UNAVAILABLE,
  // DEADLINE_EXCEEDED and others: the source could not read rows.
  StatusOr<std::vector<Prediction>> Run(std::span<const PredictRequest> requests);

 private:
  // Rows are read before the executor waits, so this limit does not end a read.
  static constexpr Duration kRowTimeout = std::chrono::seconds(30);

  // A plan for one number of samples.
  struct Sized {
    std::unique_ptr<exec::Plan> plan;
    std::unique_ptr<exec::Executor> executor;
    std::vector<Tensor> inputs, outputs;
  };
  // Returns the plan for at least `samples` samples: the number is rounded up to a power of two.
  StatusOr<Sized*> PlanFor(int64_t samples);
  PrefetchHandler::Pull RowPull();

  const ServingProgram& model_;
  exec::Scope& scope_;
  ModelSource& source_;
  PrefetchHandler rows_;
  std::map<int64_t, Sized> sized_;  // by number of samples
};

}  // namespace tandem::trainer
