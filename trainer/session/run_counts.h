// Counters of a training run: its composition and its activity. The trainer's result holds them, so
// that tools can compare runs (`tandem bench knobs`).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"
#include "kernels/exec/executor.h"
#include "trainer/session/programs.h"

namespace tandem::trainer {

// Counters by name:
//   ops, ops.TYPE           operators of the training program
//   ops.16bit               operators that write 16-bit tensors
//   ops.conditional         operators that have a condition
//   passes.NAME             locations that the pass changed in the program
//   plan.IMPL               operators that run on this implementation: plan.onednn, plan.direct
//   plan.threads            threads that run operators
//   plan.inplace            outputs that reuse an input's memory
//   held_bytes              parameters and state of this rank
//   passing_bytes           peak size of other ranks' parameters on this rank (sharding)
//   comm_flat_bytes         buffers that join several parameters
//   arena_bytes             temporaries
//   arena_bytes_min         peak size of live temporaries
//   drops                   executor runs after which temporaries were dropped
//   runs                    runs of the executor
//   repeated_steps          steps done again: the job had done them before all its ranks died
//   feed_bytes              bytes of batches copied to the program's data variables
//   device.launches         plan steps and graphs that training started on a device
//   device.limit_ms         lower bound of a training run's time on the device
//                           (kernels/exec/roofline.h)
//   loss_scaling            of amp, after the last step
//   comm, comm.TYPE         communications that operators started
//   comm_out_bytes.TYPE     full size of the outputs of these communications
//   comm_bytes              bytes of this rank's buffers that collectives transferred
//   comm_at_once            largest number of concurrent communications
//   communicators           communicators of the rank
//   recoveries              recoveries of this process from the loss of a peer
//   localsgd.k_steps        of adaptive_localsgd, after the last step
//   ps.pushes, ps.pulls     requests to all servers
//   ps.calls                calls to single servers, of all kinds
//   ps.sent_bytes, ps.received_bytes  bytes of these calls
//   ps.lane_calls           calls to single servers over shm RPC
//   ps.rows_ahead           batches with rows prefetched after the previous push
//   ps.row_cache_hits, ps.row_cache_misses  rows of batches (row_cache_mb)
//   ps.slices               slices of parameters
//   ps.largest_share        elements on the fullest server
//   peak_bytes              largest resident memory of the process
// A missing name means 0.
using RunCounts = std::map<std::string, double>;

// Counts the calls to another handler and forwards them.
class CountingComm final : public CommHandler {
 public:
  explicit CountingComm(CommHandler& inner) : inner_(inner) {}  // must outlive this
  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return inner_.timeout(); }

  // Must not be called while the plan runs.
  void AddTo(RunCounts* counts) const;

 private:
  struct Node {
    std::string type;
    int64_t started = 0;
    double bytes = 0;  // bytes that it writes
  };
  CommHandler& inner_;
  std::vector<Node> nodes_;  // by the inner handler's index
};

// The newest runs of a session, one entry each; older runs are dropped.
class RunHistory {
 public:
  static constexpr size_t kRunsMax = 1000;
  struct Entry {
    int64_t step = 0;    // the last step of the run, from 0
    int64_t steps = 1;   // steps in the run
    double seconds = 0;  // duration of all its steps, without waiting for data
    double loss = 0;     // NaN: not fetched
  };
  void Add(const Entry& entry) {
    ++runs_;
    if (entries_.size() == kRunsMax) entries_.pop_front();
    entries_.push_back(entry);
  }
  const std::deque<Entry>& entries() const { return entries_; }
  int64_t runs() const { return runs_; }  // all runs, dropped ones included

 private:
  std::deque<Entry> entries_;
  int64_t runs_ = 0;
};

// The parts of a session after its last step.
struct RunParts {
  const JobPrograms& programs;
  const Plan& plan;
  const Executor& executor;
  const Scope& scope;
  const RunHistory& history;
  const CountingComm* comm;  // nullptr: the mode has no communication
  const ModeDriver& mode;
  int64_t feed_bytes;
  const Backend& backend;  // the plan's
  bool tensor_op_math;     // KernelSettings::tensor_op_math
};
RunCounts CountsOf(const RunParts& parts);

}  // namespace tandem::trainer
