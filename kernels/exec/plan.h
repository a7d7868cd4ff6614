// A plan: a program made ready for one device. Kernels are resolved to function pointers,
// temporaries to offsets in one arena, communication to start and wait steps.
// kernels/exec/executor.h runs it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/exec/backend.h"
#include "kernels/exec/comm.h"
#include "kernels/exec/drop_scope.h"
#include "kernels/exec/memory_plan.h"
#include "kernels/exec/scope.h"
#include "kernels/exec/step_graph.h"
#include "kernels/graph/program.h"

namespace tandem {

struct PlanOptions {
  int threads = 1;                         // compute threads of the kernels
  std::vector<std::string> fetch;          // temporaries that must be readable after a run
  std::vector<std::string> disable_impls;  // kernel implementations not to use ("onednn")
  std::vector<std::string> onednn_ops;     // operator types that may use "onednn"; empty: all
  size_t conv_scratch_max = SIZE_MAX;      // bytes that an algorithm of a convolution may use
  ConvSearch* conv_search = nullptr;       // measures these algorithms; nullptr: by rule
  CodeCache* code = nullptr;               // of what is compiled; nullptr: of this plan alone
  bool tensor_op_math = false;             // this and the next: PrepareContext
  bool persistent_batch_norm = true;
  MemoryOptions memory;
  DropOptions drop;
  // All communication ends before the first operator that makes the step lasting (commit.h). Else
  // an update is made as soon as its own gradient is there.
  bool commit = false;
  // Operators that run at the same time where the program and its memory allow it; each may use all
  // of `threads`, so that the bits stay the same. 1: in program order, on the executor's thread, as
  // always on a CUDA device, whose stream takes kernels in order.
  int num_threads = 1;
  // On a device kernels in a row are recorded once and started as a whole (graph_pieces.h).
  bool graphs = false;
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
  // Where the operators' pointers to `var`, a kData variable, stand: who sets all of them, between
  // runs, has it read from elsewhere. Empty when an operator writes it, or communicates it.
  std::vector<const void**> Readers(std::string_view var);

  std::span<const PlanStep> steps() const { return steps_; }
  const MemoryPlan& memory() const { return memory_; }  // of the temporaries
  size_t arena_bytes() const { return memory_.bytes; }
  size_t scratch_bytes() const { return scratch_bytes_; }  // of the kernels, for each thread
  // Pages of temporaries that nobody fetches; empty where the device is not the CPU.
  const std::vector<std::span<std::byte>>& droppable() const { return droppable_; }
  // True when they hold more than DropOptions::above_bytes.
  bool drops_each_run() const {
    return drop_.above_bytes >= 0 && static_cast<int64_t>(memory_.bytes) > drop_.above_bytes;
  }
  // Gives them back. Not while the plan is run.
  void DropTemporaries();

  int num_threads() const { return num_threads_; }
  int kernel_threads() const { return kernel_threads_; }
  // Where the plan's memory is not this process's own; nullptr for the CPU.
  Device* device() const { return device_; }
  // Who records graphs of this plan; nullptr: nobody.
  const Backend* recorder() const { return recorder_; }
  // Which steps wait for which; empty with one thread.
  const StepGraph& graph() const { return graph_; }
  // When communication `comm` of the last run ended. REQUIRES: its wait step was run.
  Time CommEnded(int comm) const { return done_[static_cast<size_t>(comm)]->ended(); }
  // Implementation chosen for each operator: "conv2d: onednn".
  const std::vector<std::string>& choices() const { return choices_; }
  // For people, a line each: fused operators that the best implementation of their place refuses.
  const std::string& notes() const { return notes_; }

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
  Device* device_ = nullptr;
  const Backend* recorder_ = nullptr;
  DropOptions drop_;
  std::vector<std::span<std::byte>> droppable_;
  int num_threads_ = 1, kernel_threads_ = 1;
  StepGraph graph_;
  Buffer arena_;
  std::vector<Buffer> scratch_;                       // one per thread
  size_t scratch_bytes_ = 0;                          // of each
  std::unordered_map<std::string, Tensor> readable_;  // data, fetched, scope
  MemoryPlan memory_;
  std::vector<std::string> choices_;
  std::string notes_;
};

}  // namespace tandem
