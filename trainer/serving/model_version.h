// One version of a model that answers requests.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "trainer/serving/predictor.h"

namespace tandem::trainer {

struct ServingOptions {
  int threads = 1;          // threads that compute, each one batch at a time; at least 1
  int64_t batch_max = 64;   // samples that a thread computes together; at least 1
  size_t queue_max = 1024;  // requests that may wait for a thread; at least 1
  // Interval at which changing values are read again.
  Duration refresh = std::chrono::seconds(1);
};

// Computes predictions with the values of one source. Thread-safe.
//
// A free thread takes the requests that wait at this moment, up to batch_max samples. So batches
// grow with the load, and a request of an idle server does not wait. If the source changes, a
// thread uses the newest values from its next batch on; all predictions of a batch have the same
// dense values.
class ModelVersion {
 public:
  // Reads the values and starts the threads. `forward`, `outputs`: as in ServingProgram::Make.
  // `role`: label of the metrics. `metrics` must outlive the version. Errors: those of
  // ModelSource::Dense, ModelSource::ReadRows and ServingProgram::Make. INVALID_ARGUMENT: a batch
  // of batch_max samples would read too many rows.
  static StatusOr<std::unique_ptr<ModelVersion>> Start(const graph::Program& forward,
                                                       std::vector<std::string> outputs,
                                                       std::unique_ptr<ModelSource> source,
                                                       const ServingOptions& options,
                                                       const std::string& role, Metrics& metrics);
  // Blocks until all accepted requests are answered.
  ~ModelVersion();
  // Answers all waiting requests, and later ones, with UNAVAILABLE.
  void Stop();

  const ServingProgram& program() const { return program_; }
  // Returns the version of the newest dense values (DenseValues::version).
  std::string values_version() const;
  // Returns whether the values are fixed, or the last read of the newest ones is not too old.
  bool ready() const;

  // Checks a request and queues it. `request.done` is always called: with INVALID_ARGUMENT if the
  // request does not fit the model, with RESOURCE_EXHAUSTED if too many requests wait, with
  // DEADLINE_EXCEEDED or CANCELLED if it waited for too long, with UNAVAILABLE if the version ends.
  void Predict(PredictRequest request);

 private:
  struct Numbers {
    Counter &samples, &batches, &failed_refreshes;
    Histogram& batch_samples;
  };
  ModelVersion(ServingProgram program, std::unique_ptr<ModelSource> source,
               const ServingOptions& options, const std::string& role, Metrics& metrics);
  // Checks that the source has the rows of all tables.
  Status CheckTables();
  Status CheckBatch() const;
  void StartThreads();
  Status Check(const PredictRequest& request) const;
  Status PrepareScopes(const DenseValues& dense);
  // Work of one thread, which uses `scope`. `used`: version of the values in the scope.
  void Serve(exec::Scope& scope, std::string used);
  // Computes the requests and answers them. If the batch fails because of one request, the others
  // are computed alone.
  void Answer(Predictor& predictor, std::span<PredictRequest> batch, const std::string& version);
  // Takes waiting requests; empty: the version ends.
  std::vector<PredictRequest> TakeBatch();
  // Reads the values at each interval until the version ends.
  void KeepFresh();

  const ServingProgram program_;
  const std::unique_ptr<ModelSource> source_;
  const ServingOptions options_;
  const Numbers numbers_;
  CpuDevice host_;
  // One scope for all threads if nothing writes the values, otherwise one for each thread.
  std::vector<std::unique_ptr<exec::Scope>> scopes_;
  mutable Mutex mu_;
  CondVar changed_;  // a request waits, or the version ends
  CondVar ended_;    // the version ends
  std::deque<PredictRequest> waiting_ TD_GUARDED_BY(mu_);
  // The newest values; of a fixed source only their version, because the scope has them.
  std::shared_ptr<const DenseValues> dense_ TD_GUARDED_BY(mu_);
  Time refreshed_ TD_GUARDED_BY(mu_);  // time of the last successful read of the values
  bool ending_ TD_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::trainer
