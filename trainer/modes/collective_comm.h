// Executes the communication operators of a plan in collective mode.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/exec/comm.h"
#include "trainer/modes/collective_communicators.h"
#include "trainer/modes/collective_mode.h"
#include "trainer/modes/comms/allreduce_choice.h"
#include "trainer/modes/comms/comm_bucket.h"
#include "trainer/modes/comms/flat_pool.h"
#include "trainer/modes/comms/rank_waits.h"
#include "trainer/modes/mode_counts.h"

namespace tandem::trainer {

// Distributes the communication nodes of a plan over the communicators. With one_comm_at_a_time and
// several communicators, a node starts after the previous node has ended. Thus all ranks execute
// the nodes in the same order.
class CollectiveComm final : public exec::CommHandler {
 public:
  // `options` and `waits` must outlive this object. `communicators` must exist until EndFlights has
  // returned.
  CollectiveComm(const CollectiveOptions& options, CollectiveCommunicators& communicators,
                 RankWaits& waits)
      : options_(options), communicators_(communicators), waits_(waits) {}

  StatusOr<int> Register(const exec::CommNode& node) override;
  void Start(int index, int64_t step, exec::CommDone* done) override TD_EXCLUDES(mu_);
  Duration timeout() const override { return 2 * options_.common.step_timeout; }

  // Returns the buckets that an allreduce sums over the ranks. ChooseByModel chooses an allreduce
  // algorithm for each of these buckets.
  std::vector<ReducedBucket> Reduced() const;
  // Allocates the memory of all buckets from newly connected communicators.
  Status AllocateBuckets();
  // Sets the first step that the job runs. NCCL connects in this step.
  void SetFirstStep(int64_t step) { first_step_ = step; }
  // Blocks until no allreduce that began in an earlier step is in flight. A later operator still
  // gets the result. Returns the first failure; DEADLINE_EXCEEDED: see OverlappedFlight.
  Status WaitForOverlapped(Time deadline);
  // Returns true if an average that an operator has begun is still in flight.
  bool overlapped_in_flight();
  // Ends the communications that run one after another: aborts the communicators if such a
  // communication is pending, and blocks until none is in flight.
  void EndFlights() TD_EXCLUDES(mu_);
  void AddCounts(ModeCounts* counts) const;

 private:
  // A communication that is in flight, or that waits for the end of the previous communication.
  struct Flight {
    CommBucket* bucket;
    int64_t step;
    exec::CommDone* done;
  };

  collective::Communicator& CommunicatorOf(const CommBucket& bucket) const {
    return communicators_.Numbered(bucket.borrows ? 0 : bucket.index);
  }
  Status GiveMemory(CommBucket& bucket);
  // Finds the bucket of c_allreduce_begin whose allreduce `node` ends. FAILED_PRECONDITION: there
  // is no such bucket.
  StatusOr<CommBucket*> BegunBy(const exec::CommNode& node) const;
  // Ends the allreduce of `begun` for the operator that waits for `done`. `step`: the index of its
  // step.
  void EndOverlapped(CommBucket& begun, int64_t step, exec::CommDone* done);
  // Starts the communication. Calls `then` after CommDone of the flight was completed.
  void Launch(const Flight& flight, std::function<void()> then);
  void LaunchNext() TD_EXCLUDES(mu_);

  const CollectiveOptions& options_;
  CollectiveCommunicators& communicators_;
  RankWaits& waits_;
  int64_t first_step_ = -1;
  std::vector<std::unique_ptr<CommBucket>> buckets_;
  FlatPool flats_;  // memory for buckets that have a flat buffer only during a flight
  std::atomic<int64_t> launched_{0}, launched_max_{0};  // flights in progress, and the maximum
  std::atomic<int64_t> bytes_{0};                       // bytes sent from this rank's buffers

  // The following members order the flights that run one after another on several communicators.
  Mutex mu_;
  CondVar idle_;
  std::deque<Flight> waiting_ TD_GUARDED_BY(mu_);
  bool busy_ TD_GUARDED_BY(mu_) = false;
};

}  // namespace tandem::trainer
