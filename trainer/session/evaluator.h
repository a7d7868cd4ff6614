// Computes loss and metrics of the current parameters over a whole dataset.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"
#include "kernels/graph/for_test.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::trainer {

struct Evaluation {
  double loss = 0;
  double metric = 0;  // the program's first metric (accuracy, auc); 0: no metric
  int64_t samples = 0;
};

// Runs the evaluation form of a program (kernels/graph/for_test.h). It shares the parameters of
// `scope` with training, without a copy. Not thread-safe; must not run during a training step.
//
// If parameters are sharded over the ranks, all ranks evaluate together. Rank 0 runs the program,
// and the other ranks send it their parameters, batch after batch.
//
// LocalReplicas evaluate independently: each has its own plans and thread and takes the next batch.
// The results are combined in the order of the batches, so the number of replicas does not change
// the result. A metric with state over batches needs the batches in order, so it runs on one
// replica.
class Evaluator {
 public:
  using Part = std::function<StatusOr<Program>(const Program& bound)>;

  // `options`: for the plans; the evaluator adds the values to fetch. `comm` runs the program's
  // communication, on one replica then; nullptr: the program has none. `dataset` may be null if
  // only Serve is called. All arguments but `forward` and `options` must outlive the evaluator.
  // `places`: replicas, at least 1. `part` selects the part of the program to run, once the program
  // is bound to its batch (ProgramShaper::EvaluatedPart); empty: all of it. If that part has no
  // loss, the evaluation is empty.
  Evaluator(Program forward, const Backend& backend, Scope& scope, const reader::Dataset* dataset,
            PlanOptions options, CommHandler* comm = nullptr, int places = 1, Part part = nullptr)
      : forward_(ForTest(std::move(forward))),
        backend_(backend),
        scope_(scope),
        dataset_(dataset),
        options_(std::move(options)),
        comm_(comm),
        part_(std::move(part)),
        sized_(comm != nullptr ? 1 : static_cast<size_t>(places)) {}

  // The number of batches of a run.
  int64_t batches() const;
  StatusOr<Evaluation> Run();
  // Takes part in a Run of rank 0 over `batches` batches.
  Status Serve(int64_t batches);

 private:
  uint32_t Batch() const;  // samples per batch; the last batch may be smaller

  // A plan for one batch size, made at its first use.
  struct Sized {
    std::unique_ptr<Plan> plan;
    std::unique_ptr<Executor> executor;
    std::vector<void*> inputs;  // host memory of the dataset's fields
    // On a device: pairs of that host memory and the tensor it is copied to.
    std::vector<std::pair<Tensor, Tensor>> staged;
    std::vector<std::string> fetch;
  };
  StatusOr<Sized*> ForBatch(size_t place, uint32_t batch);
  // Prepares the memory that one field is read into.
  Status Stage(const Tensor& field, Sized* sized);
  // Loss and metric of the samples from `at` on.
  StatusOr<Evaluation> RunBatch(Sized& sized, uint32_t at, uint32_t batch) const;
  StatusOr<std::vector<Evaluation>> RunBatches(size_t places);

  Program forward_;
  const Backend& backend_;
  Scope& scope_;
  CpuDevice host_;
  const reader::Dataset* const dataset_;
  const PlanOptions options_;
  CommHandler* const comm_;
  const Part part_;
  std::vector<std::map<uint32_t, Sized>> sized_;  // by replica
  Sized served_;                                  // the communication only, for Serve
};

// Type of the operator of the program's first metric ("accuracy"); "": no metric.
std::string MetricName(const Program& program);

// Addresses of the plan's data variables in the order of the dataset's fields. INVALID_ARGUMENT:
// the program and the data do not match; the message names both.
StatusOr<std::vector<Tensor>> BindFields(const Plan& plan, const reader::Dataset& dataset);

}  // namespace tandem::trainer
