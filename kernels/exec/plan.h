// A plan: a program prepared for one device. Each operator has a pointer to its kernel function,
// and each temporary has an offset in one arena. A communication has a start step and a wait step.
// kernels/exec/executor.h runs a plan.
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
#include "kernels/ops/core/kernel_settings.h"

namespace tandem::exec {

struct PlanOptions {
  int threads = 1;                 // number of threads per kernel
  std::vector<std::string> fetch;  // temporaries that must be readable after a run
  // Kernel implementations that must not be used, such as "onednn".
  std::vector<std::string> disable_impls;
  // The types of operators that may use the implementation "onednn". Empty: all types may.
  std::vector<std::string> onednn_ops;
  // The cache of compiled kernels, not owned. nullptr: the plan makes its own cache.
  ops::CodeCache* code = nullptr;
  ops::KernelSettings settings;  // options that only some kernels read
  MemoryOptions memory;
  DropOptions drop;
  // If true, the plan waits for all communication before the first operator that makes the training
  // step permanent (commit.h). If false, a parameter is updated as soon as its own gradient is
  // ready.
  bool commit = false;
  // Largest number of operators that run at the same time, if the program and its memory allow it.
  // Each operator may use up to `threads` threads, independently of num_threads, so that the
  // results have the same bits. 1: operators run in program order on the executor's thread. A CUDA
  // device always uses 1, because its stream runs kernels in order.
  int num_threads = 1;
  // If true, consecutive kernels on a device are recorded once and launched as one graph
  // (graph_pieces.h).
  bool graphs = false;
};

// One step of the plan: a kernel, the start of a communication, or the wait for it.
struct PlanStep {
  ops::KernelFn run = nullptr;  // kernel; nullptr: the step starts a communication or waits for one
  // Pointers into Plan::pointers_, in the order of the operator's argument positions.
  ops::KernelArgs args{};
  int op = 0;           // index of the operator in the program, for messages
  int comm_start = -1;  // number of the communication to start; -1: none
  int comm_wait = -1;   // number of the communication to wait for; -1: none
  // If this value is 0, the step is skipped. nullptr: the step always runs.
  const float* run_if = nullptr;
};

// Owns a copy of the program and the memory of its temporaries. A run changes this memory, but not
// the plan. Only one executor may use a plan, because the memory is sufficient for only one run at
// a time. Scope, backend and communication handler must outlive the plan.
class Plan {
 public:
  // Makes a plan. UNIMPLEMENTED: the place has no kernel for an operator; the message names the
  // place and the operator.
  static StatusOr<std::unique_ptr<Plan>> Make(const graph::Program& program, const Backend& backend,
                                              Scope& scope, CommHandler* comm,
                                              const PlanOptions& options);
  ~Plan();

  const graph::Program& program() const { return program_; }
  // Returns the memory of a kData variable, which the caller fills before a run. Also returns the
  // memory of a fetched temporary or of a variable of the scope. NOT_FOUND: any other variable.
  StatusOr<Tensor> Get(std::string_view var) const;
  // Returns the addresses of all operator arguments that point to the kData variable `var`. Between
  // runs, the caller may change all these arguments, so that the operators read `var` from other
  // memory. Empty: an operator writes or communicates `var`.
  std::vector<const void**> Readers(std::string_view var);

  std::span<const PlanStep> steps() const { return steps_; }
  const MemoryPlan& memory() const { return memory_; }  // memory of the temporaries
  size_t arena_bytes() const { return memory_.bytes; }
  size_t scratch_bytes() const { return scratch_bytes_; }  // scratch memory per thread, in bytes
  // Returns the scratch memory of a thread. The argument arrays of the steps point to the scratch
  // memory of thread 0.
  void* scratch(int thread) const;
  // Pages that contain only temporaries outside of PlanOptions::fetch. Empty if the device is not
  // the CPU.
  const std::vector<std::span<std::byte>>& droppable() const { return droppable_; }
  const DropOptions& drop() const { return drop_; }
  // Returns true if the temporaries hold more than DropOptions::above_bytes.
  bool drops_each_run() const {
    return drop_.above_bytes >= 0 && static_cast<int64_t>(memory_.bytes) > drop_.above_bytes;
  }
  // Returns the pages of the temporaries to the system. Must not be called while the plan runs.
  void DropTemporaries() const;

  int num_threads() const { return num_threads_; }
  int kernel_threads() const { return kernel_threads_; }
  // The device that holds the plan's memory; nullptr: the CPU.
  Device* device() const { return device_; }
  // The backend that records graphs of this plan; nullptr: graphs are not used.
  const Backend* recorder() const { return recorder_; }
  // Dependencies between the plan steps. Empty if the plan uses one thread.
  const StepGraph& graph() const { return graph_; }
  CommHandler* comm_handler() const { return comm_; }  // nullptr: the program has no communication
  // By communication number (PlanStep::comm_start): the index of the node in the handler.
  std::span<const int> comm_nodes() const { return comm_nodes_; }
  // The implementations that the plan chose, one text per operator: "conv2d: onednn".
  const std::vector<std::string>& choices() const { return choices_; }
  // Text for the user, with one line per fused operator that the preferred implementation rejects.
  const std::string& notes() const { return notes_; }

 private:
  friend class PlanMaker;
  Plan() = default;

  graph::Program program_;
  std::vector<PlanStep> steps_;
  std::vector<std::vector<void*>> pointers_;   // arrays with the arguments of the steps' kernels
  std::vector<std::shared_ptr<void>> states_;  // memory that kernels keep between calls
  std::vector<int> comm_nodes_;                // by communication: index in the handler
  CommHandler* comm_ = nullptr;
  Device* device_ = nullptr;
  const Backend* recorder_ = nullptr;
  DropOptions drop_;
  std::vector<std::span<std::byte>> droppable_;
  int num_threads_ = 1, kernel_threads_ = 1;
  StepGraph graph_;
  Buffer arena_;
  std::vector<Buffer> scratch_;  // scratch memory, one buffer per executor thread
  size_t scratch_bytes_ = 0;     // scratch memory per thread in bytes
  // kData variables, fetched variables and variables of the scope, by name.
  std::unordered_map<std::string, Tensor> readable_;
  MemoryPlan memory_;
  std::vector<std::string> choices_;
  std::string notes_;
};

}  // namespace tandem::exec
