// Loss and metrics of the current parameters over a whole dataset.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"
#include "kernels/graph/for_test.h"
#include "trainer/reader/dataset.h"

namespace tandem {

struct Evaluation {
  double loss = 0;
  double metric = 0;  // the program's first metric (accuracy, auc); 0 without one
  int64_t samples = 0;
};

// Runs the evaluation form of a program (kernels/graph/for_test.h). Shares the parameters of
// `scope` with training: no copy is made. One thread, never while a training step runs.
//
// Where parameters are spread over the ranks, all evaluate together: rank 0 runs the program, and
// the others give it their parameters, batch after batch.
//
// LocalReplicas predict independently of each other: each has plans of its own and takes the next
// batch, in threads of their own. Results are put together in the order of the batches, so that
// their number changes no bit. A metric that runs over batches needs them in order, in one place.
class Evaluator {
 public:
  using Part = std::function<StatusOr<Program>(const Program& bound)>;

  // `options` of the plans; what they fetch is added. `comm` runs what the program communicates,
  // then in one place; nullptr when that is nothing. `dataset` may be null where Serve is called
  // alone. All but `forward` and `options` must outlive the evaluator. `places` >= 1. `part`: what
  // is run of the program once it is bound to its batch (ModeDriver::Evaluated); without loss in it
  // the evaluation is nothing.
  Evaluator(Program forward, const Backend& backend, Scope& scope, const Dataset* dataset,
            PlanOptions options, CommHandler* comm = nullptr, int places = 1, Part part = nullptr)
      : forward_(ForTest(std::move(forward))),
        backend_(backend),
        scope_(scope),
        dataset_(dataset),
        options_(std::move(options)),
        comm_(comm),
        part_(std::move(part)),
        sized_(comm != nullptr ? 1 : static_cast<size_t>(places)) {}

  // What is to be run, one after another.
  int64_t batches() const;
  StatusOr<Evaluation> Run();
  // Takes part in a Run of rank 0 over so many batches.
  Status Serve(int64_t batches);

 private:
  uint32_t Batch() const;  // samples at once; the last batch may be smaller

  // A plan for batches of one size, made at its first use.
  struct Sized {
    std::unique_ptr<Plan> plan;
    std::unique_ptr<Executor> executor;
    std::vector<void*> inputs;  // host memory of the dataset's fields
    // On a device: that memory, and where it is copied to.
    std::vector<std::pair<Tensor, Tensor>> staged;
    std::vector<std::string> fetch;
  };
  StatusOr<Sized*> ForBatch(size_t place, uint32_t batch);
  // Prepares where the data of one field is read to.
  Status Stage(const Tensor& field, Sized* sized);
  // Loss and metric of the samples from `at` on.
  StatusOr<Evaluation> RunBatch(Sized& sized, uint32_t at, uint32_t batch) const;
  StatusOr<std::vector<Evaluation>> RunBatches(size_t places);

  Program forward_;
  const Backend& backend_;
  Scope& scope_;
  CpuDevice host_;
  const Dataset* const dataset_;
  const PlanOptions options_;
  CommHandler* const comm_;
  const Part part_;
  std::vector<std::map<uint32_t, Sized>> sized_;  // by place
  Sized served_;                                  // the communication alone
};

// Type of the operator that gives the program's first metric ("accuracy"); "" without one.
std::string MetricName(const Program& program);

// Addresses of the plan's data variables in the order of the dataset's fields. INVALID_ARGUMENT
// when the program and the data do not fit together, naming both sides.
StatusOr<std::vector<Tensor>> BindFields(const Plan& plan, const Dataset& dataset);

}  // namespace tandem
