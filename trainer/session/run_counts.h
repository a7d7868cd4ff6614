// What a training run was made of and what it did, in numbers, for those who compare runs
// (`tandem bench knobs`): the trainer's result holds them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"
#include "kernels/exec/executor.h"
#include "trainer/session/programs.h"

namespace tandem {

// By name:
//   ops, ops.TYPE           operators of the training program
//   ops.16bit               operators that write 16-bit tensors
//   ops.conditional         operators that have a condition
//   passes.NAME             places where the pass changed the program
//   plan.IMPL               operators that run on this implementation: plan.onednn, plan.direct
//   plan.threads            threads that take operators
//   plan.inplace            outputs that take over an input's memory
//   held_bytes              parameters and state of this rank; passing_bytes: most of other ranks'
//                           parameters at once (sharding); comm_flat_bytes: buffers that put
//                           several of them together
//   arena_bytes             temporaries; arena_bytes_min: most that is alive at once
//   drops                   runs of the executor behind which temporaries were dropped
//   runs                    runs of the executor
//   repeated_steps          steps that the job had done before all of its ranks died
//   feed_bytes              of batches, that steps brought to the program's data variables
//   device.launches         steps of the plan and graphs that training started on a device
//   device.limit_ms         of a run of the training program, which the card takes at the least
//                           (kernels/exec/roofline.h)
//   loss_scaling            of amp, behind the last step
//   comm, comm.TYPE         communications that operators started
//   comm_out_bytes.TYPE     what these wrote, whole
//   comm_bytes              what collectives carried, of this rank's buffers
//   comm_at_once            most that were under way at once
//   communicators
//   recoveries              of this process, from the loss of a peer
//   localsgd.k_steps        of adaptive_localsgd, behind the last step
//   ps.pushes, ps.pulls     messages to all servers
//   ps.calls                to one server each, of all kinds
//   ps.sent_bytes, ps.received_bytes  of their messages
//   ps.lane_calls           of these: to one server, through shared memory
//   ps.rows_ahead           batches of which the rows were asked for behind the push before
//   ps.row_cache_hits, ps.row_cache_misses  rows of batches (row_cache_mb)
//   ps.slices               of parameters; ps.largest_share: elements of the fullest server
//   peak_bytes              largest resident memory of the process
// A name that is not there stands for 0.
using RunCounts = std::map<std::string, double>;

// A handler that counts what another one is asked for. Both are called alike.
class CountingComm final : public CommHandler {
 public:
  explicit CountingComm(CommHandler& inner) : inner_(inner) {}  // must outlive this
  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return inner_.timeout(); }

  // Not while the plan is run.
  void AddTo(RunCounts* counts) const;

 private:
  struct Node {
    std::string type;
    int64_t started = 0;
    double bytes = 0;  // that it writes
  };
  CommHandler& inner_;
  std::vector<Node> nodes_;  // by the inner handler's index
};

// The newest runs of a session, one entry each.
class RunHistory {
 public:
  static constexpr size_t kRunsMax = 1000;
  struct Entry {
    int64_t step = 0;    // the last of the run, from 0
    int64_t steps = 1;   // in it
    double seconds = 0;  // of all of them, without waiting for data
    double loss = 0;     // NaN: was not fetched
  };
  void Add(const Entry& entry) {
    ++runs_;
    if (entries_.size() == kRunsMax) entries_.pop_front();
    entries_.push_back(entry);
  }
  const std::deque<Entry>& entries() const { return entries_; }
  int64_t runs() const { return runs_; }  // all of them

 private:
  std::deque<Entry> entries_;
  int64_t runs_ = 0;
};

// What a session consists of, behind its last step.
struct RunParts {
  const JobPrograms& programs;
  const Plan& plan;
  const Executor& executor;
  const Scope& scope;
  const RunHistory& history;
  const CountingComm* comm;  // nullptr: none
  const ModeDriver& mode;
  int64_t feed_bytes;
  const Backend& backend;  // of the plan
  bool tensor_op_math;     // PlanOptions
};
RunCounts CountsOf(const RunParts& parts);

}  // namespace tandem
