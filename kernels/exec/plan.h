// A plan: a program made ready for one device. Kernels are resolved to function pointers,
// temporaries to offsets in one arena, communication to start and wait steps.
// kernels/exec/executor.h runs it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/exec/backend.h"
#include "kernels/exec/comm.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"

namespace tandem {

struct PlanOptions {
  int threads = 1;                         // compute threads of the kernels
  std::vector<std::string> fetch;          // temporaries that must be readable after a run
  std::vector<std::string> disable_impls;  // kernel implementations not to use ("onednn")
  std::vector<std::string> onednn_ops;     // operator types that may use "onednn"; empty: all
};

// One call of the plan.
struct PlanStep {
  KernelFn run = nullptr;         // nullptr: a communication step
  KernelArgs args{};              // pointers into Plan's tables, by the operator's positions
  int op = 0;                     // index in the program, for messages
  int comm_start = -1;            // communication started here, or -1
  int comm_wait = -1;             // communication waited for here, or -1
  const float* run_if = nullptr;  // the operator's condition: 0 leaves the step out
};

// Keeps a copy of the program; scope, backend and handler must outlive it. Run by one executor.
class Plan {
 public:
  // UNIMPLEMENTED naming operator and place when there is no kernel.
  static StatusOr<std::unique_ptr<Plan>> Make(const Program& program, const Backend& backend,
                                              Scope& scope, CommHandler* comm,
                                              const PlanOptions& options);
  ~Plan();

  const Program& program() const { return program_; }
  // Memory of a kData variable (to be filled before a run), a fetched temporary, or a variable of
  // the scope. NOT_FOUND for others.
  StatusOr<Tensor> Get(std::string_view var) const;

  std::span<const PlanStep> steps() const { return steps_; }
  size_t arena_bytes() const { return arena_bytes_; }          // temporaries
  size_t arena_bytes_min() const { return arena_bytes_min_; }  // largest sum of live temporaries
  // When communication `comm` of the last run ended. REQUIRES: its wait step was run.
  Time CommEnded(int comm) const { return done_[static_cast<size_t>(comm)]->ended(); }
  // Implementation chosen for each operator: "conv2d: onednn".
  const std::vector<std::string>& choices() const { return choices_; }

 private:
  friend class PlanMaker;
  friend class Executor;
  Plan() = default;

  Program program_;
  std::vector<PlanStep> steps_;
  std::vector<std::vector<void*>> pointers_;     // argument arrays of the steps
  std::vector<std::shared_ptr<void>> states_;    // kernel states
  std::vector<std::unique_ptr<CommDone>> done_;  // one per communication
  std::vector<int> comm_index_;                  // handler's index per communication
  CommHandler* comm_ = nullptr;
  Buffer arena_, scratch_;
  std::unordered_map<std::string, Tensor> readable_;  // data, fetched, scope
  size_t arena_bytes_ = 0, arena_bytes_min_ = 0;
  std::vector<std::string> choices_;
};

}  // namespace tandem
