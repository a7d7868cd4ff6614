// A plan: a program prepared for one device. Kernels are resolved to function pointers, temporaries
// to offsets in one arena, and communication to start and wait steps. kernels/exec/executor.h runs
// a plan.
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

namespace tandem {

struct PlanOptions {
  int threads = 1;                         // compute threads of the kernels
  std::vector<std::string> fetch;          // temporaries that must be readable after a run
  std::vector<std::string> disable_impls;  // kernel implementations not to use ("onednn")
  std::vector<std::string> onednn_ops;     // operator types that may use "onednn"; empty: all
  CodeCache* code = nullptr;               // cache of compiled kernels; nullptr: one for this plan
  KernelSettings settings;                 // for the kernels of single families
  MemoryOptions memory;
  DropOptions drop;
  // true: all communication ends before the first operator that makes the training step permanent
  // (commit.h). false: an update runs as soon as its own gradient is ready.
  bool commit = false;
  // Number of operators that may run at the same time, if the program and its memory allow it. Each
  // may use all of `threads`, so that the bits stay the same. 1: operators run in program order on
  // the executor's thread. This is always so on a CUDA device, whose stream runs kernels in order.
  int num_threads = 1;
  // On a device, consecutive kernels are recorded once and launched as one graph (graph_pieces.h).
  bool graphs = false;
};

// One call of the plan.
struct PlanStep {
  KernelFn run = nullptr;         // nullptr: a communication
  KernelArgs args{};              // pointers into the tables of Plan, by the operator's positions
  int op = 0;                     // index in the program, for messages
  int comm_start = -1;            // communication to start; -1: none
  int comm_wait = -1;             // communication to wait for; -1: none
  const float* run_if = nullptr;  // condition of the operator: 0 skips the step; nullptr: none
};

// Holds a copy of the program and the memory of its temporaries. A run changes the memory, not the
// plan. Only one executor may run a plan, because the memory is for one run at a time. Scope,
// backend and handler must outlive the plan.
class Plan {
 public:
  // UNIMPLEMENTED, naming operator and place: there is no kernel.
  static StatusOr<std::unique_ptr<Plan>> Make(const Program& program, const Backend& backend,
                                              Scope& scope, CommHandler* comm,
                                              const PlanOptions& options);
  ~Plan();

  const Program& program() const { return program_; }
  // Returns the memory of a kData variable (to be filled before a run), a fetched temporary, or a
  // variable of the scope. NOT_FOUND: any other variable.
  StatusOr<Tensor> Get(std::string_view var) const;
  // Returns the addresses of all operator arguments that point to `var`, a kData variable. Between
  // runs, the caller may set all of them to read `var` from other memory. Empty: an operator writes
  // or communicates `var`.
  std::vector<const void**> Readers(std::string_view var);

  std::span<const PlanStep> steps() const { return steps_; }
  const MemoryPlan& memory() const { return memory_; }  // of the temporaries
  size_t arena_bytes() const { return memory_.bytes; }
  size_t scratch_bytes() const { return scratch_bytes_; }  // per thread
  // The scratch memory of a thread. The arguments of the steps hold that of thread 0.
  void* scratch(int thread) const;
  // Pages of temporaries that are not fetched. Empty if the device is not the CPU.
  const std::vector<std::span<std::byte>>& droppable() const { return droppable_; }
  const DropOptions& drop() const { return drop_; }
  // Returns true if the temporaries hold more than DropOptions::above_bytes.
  bool drops_each_run() const {
    return drop_.above_bytes >= 0 && static_cast<int64_t>(memory_.bytes) > drop_.above_bytes;
  }
  // Releases the pages of the temporaries. Must not be called while the plan runs.
  void DropTemporaries() const;

  int num_threads() const { return num_threads_; }
  int kernel_threads() const { return kernel_threads_; }
  // The device that holds the plan's memory; nullptr: the CPU.
  Device* device() const { return device_; }
  // The backend that records graphs of this plan; nullptr: graphs are not used.
  const Backend* recorder() const { return recorder_; }
  // Dependencies between the plan steps. Empty with one thread.
  const StepGraph& graph() const { return graph_; }
  CommHandler* comm_handler() const { return comm_; }  // nullptr: no communication
  // The index in the handler, by communication. The steps number communications in this order.
  std::span<const int> comm_nodes() const { return comm_nodes_; }
  // Implementation chosen for each operator: "conv2d: onednn".
  const std::vector<std::string>& choices() const { return choices_; }
  // For users: one line per fused operator that the best implementation of the place rejects.
  const std::string& notes() const { return notes_; }

 private:
  friend class PlanMaker;
  Plan() = default;

  Program program_;
  std::vector<PlanStep> steps_;
  std::vector<std::vector<void*>> pointers_;   // argument arrays of the steps
  std::vector<std::shared_ptr<void>> states_;  // states of the kernels
  std::vector<int> comm_nodes_;                // index in the handler, by communication
  CommHandler* comm_ = nullptr;
  Device* device_ = nullptr;
  const Backend* recorder_ = nullptr;
  DropOptions drop_;
  std::vector<std::span<std::byte>> droppable_;
  int num_threads_ = 1, kernel_threads_ = 1;
  StepGraph graph_;
  Buffer arena_;
  std::vector<Buffer> scratch_;                       // one per thread
  size_t scratch_bytes_ = 0;                          // per thread
  std::unordered_map<std::string, Tensor> readable_;  // data, fetched variables, scope
  MemoryPlan memory_;
  std::vector<std::string> choices_;
  std::string notes_;
};

}  // namespace tandem
