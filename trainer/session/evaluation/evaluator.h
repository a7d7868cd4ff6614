// Computes the loss and the metric of the current parameters over a whole dataset.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"
#include "kernels/graph/for_test.h"
#include "trainer/reader/input/dataset.h"
#include "trainer/session/evaluation/scores.h"

namespace tandem::trainer {

// Returns the names of the variables that the first metric carries from batch to batch (the counts
// of auc).
std::vector<std::string> MetricState(const graph::Program& program);

struct Evaluation {
  double loss = 0;
  double metric = 0;  // value of the program's first metric (accuracy, auc); 0: no metric
  int64_t samples = 0;
  Scores scores;  // scores of the predictions; empty unless requested
};

// Runs the evaluation form of a program (kernels/graph/for_test.h) with the parameters in `scope`.
// Training uses the same parameters; the evaluator does not copy them. Not thread-safe. The caller
// must not call Run or Serve during a training step.
//
// If parameters are sharded over the ranks, all ranks evaluate together. Rank 0 runs the program,
// and the other ranks send their parameters to rank 0 for each batch.
//
// Several replicas evaluate in parallel. Each replica has its own plans and thread, and evaluates
// every `places`-th batch. The evaluator combines the results in the order of the batches, so that
// the number of replicas does not change the result. A metric with state over batches needs the
// batches in order; the evaluator therefore uses one replica.
class Evaluator {
 public:
  using Part = std::function<StatusOr<graph::Program>(const graph::Program& bound)>;

  // `dataset`: may be null if the caller calls only Serve. `options`: options of the plans; the
  // evaluator adds the values to fetch. `comm`: executes the program's communication; an evaluator
  // with `comm` uses one replica. nullptr: the program has no communication. `places`: number of
  // replicas, at least 1. `part`: selects the part of the program to run, after the program is
  // bound to its batch (ProgramShaper::EvaluatedPart); empty: the whole program. If the selected
  // part has no loss, the evaluation is empty. `scored`: computes the scores of the predictions
  // (scores.h). All arguments but `forward` and `options` must outlive the evaluator.
  Evaluator(graph::Program forward, const exec::Backend& backend, exec::Scope& scope,
            const reader::Dataset* dataset, exec::PlanOptions options,
            exec::CommHandler* comm = nullptr, int places = 1, Part part = nullptr,
            bool scored = false)
      : forward_(graph::ForTest(std::move(forward))),
        backend_(backend),
        scope_(scope),
        dataset_(dataset),
        options_(std::move(options)),
        comm_(comm),
        part_(std::move(part)),
        scored_(scored ? ScoredOutputOf(forward_) : ScoredOutput()),
        sized_(comm != nullptr ? 1 : static_cast<size_t>(places)) {}

  // Returns the number of batches that Run evaluates.
  int64_t batches() const;
  StatusOr<Evaluation> Run();
  // Takes part in a Run of rank 0: executes the communication for `batches` batches.
  Status Serve(int64_t batches);

 private:
  uint32_t Batch() const;  // number of samples per batch; the last batch may have fewer

  // A plan for one batch size. The evaluator makes the plan when it first needs this size.
  struct Sized {
    std::unique_ptr<exec::Plan> plan;
    std::unique_ptr<exec::Executor> executor;
    std::vector<void*> inputs;  // host memory into which the dataset's fields are read
    // On a device: pairs of a tensor in host memory, and the device tensor to which it is copied.
    std::vector<std::pair<Tensor, Tensor>> staged;
    std::vector<std::string> fetch;
    bool scored = false;  // the plan keeps the predictions for ScoresOf
  };
  StatusOr<Sized*> ForBatch(size_t place, uint32_t batch);
  // Prepares the memory into which one field is read.
  Status Stage(const Tensor& field, Sized* sized);
  // Returns the scores of the `batch` samples that the plan has just evaluated.
  StatusOr<Scores> ScoresOf(const Sized& sized, uint32_t batch) const;
  // Evaluates `batch` samples, the first of which is number `at`.
  StatusOr<Evaluation> RunBatch(Sized& sized, uint32_t at, uint32_t batch) const;
  StatusOr<std::vector<Evaluation>> RunBatches(size_t places);

  graph::Program forward_;
  const exec::Backend& backend_;
  exec::Scope& scope_;
  CpuDevice host_;
  const reader::Dataset* const dataset_;
  const exec::PlanOptions options_;
  exec::CommHandler* const comm_;
  const Part part_;
  const ScoredOutput scored_;
  std::vector<std::map<uint32_t, Sized>> sized_;  // plans by batch size, one map for each replica
  Sized served_;                                  // the plan of Serve: only communication operators
};

// Returns the type of the operator that computes the program's first metric, for example
// "accuracy"; "": the program has no metric.
std::string MetricName(const graph::Program& program);

// Returns the plan's data variables in the order of the dataset's fields. INVALID_ARGUMENT: the
// program and the data do not match; the message names both.
StatusOr<std::vector<Tensor>> BindFields(const exec::Plan& plan, const reader::Dataset& dataset);

}  // namespace tandem::trainer
