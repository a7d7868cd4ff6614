// Pushes gradients and pulls parameters in the background, like Fleet's Communicator. The trainer
// puts the gradients of a step into a queue and continues. Sender threads merge the queued
// gradients and push them. Between two steps the trainer takes all parameters that were pulled
// meanwhile.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/threads/bounded_queue.h"

namespace tandem::trainer {

// The fields of a_sync_configs with corresponding names.
struct AsyncOptions {
  int merge_max = 1;                            // steps that a sender merges at most
  int dense_merge_max = 12;                     // steps per push of dense gradients, at most
  int rows_merge_max = 12;                      // steps per push of rows, at most
  int queue_max = 16;                           // capacity of the queue, in steps
  int senders = 1;                              // threads that push
  int merge_waits = 1;                          // waits of 10 ms for one more step to merge
  bool recv_thread = false;                     // a separate thread pulls parameters
  int sent_before_recv = 1;                     // steps to send before the next pull
  bool sum = true;                              // add merged gradients up; false: average them
  Duration timeout = std::chrono::seconds(60);  // to wait for space in the queue
};

// Values of all variables, in their order.
using ValueSets = std::vector<std::vector<float>>;
// The gradient of some rows of a table: ascending ids and `dim` values for each. The first `counts`
// values of a row are counters, which are always added up, never averaged.
struct RowSet {
  std::vector<int64_t> ids;
  std::vector<float> values;
  int64_t dim = 0, counts = 0;
};
// Adds the rows of `more` to `sum`.
void MergeRows(const RowSet& more, RowSet* sum);

struct GradientSet {
  uint64_t step = 0;        // the newest of the merged steps
  uint64_t version = 0;     // parameters of the oldest merged step; 0: the first values
  float learning_rate = 0;  // rate of the newest step
  // Steps merged into `values` and into `rows`; 0: none.
  int dense_steps = 1, row_steps = 1;
  ValueSets values;
  std::vector<RowSet> rows;  // by table
};

// Send, Receive and Finish must be called by one thread, the trainer's.
class AsyncCommunicator {
 public:
  // Pushes `push` and pulls into `pull` (either may be null); blocks; returns the pulled version.
  // Several threads call it concurrently. `pull` has the sizes of the variables.
  using Exchange = std::function<StatusOr<uint64_t>(const GradientSet* push, ValueSets* pull)>;

  // `sizes`: elements of each variable.
  AsyncCommunicator(AsyncOptions options, std::vector<int64_t> sizes, Exchange exchange);
  // Discards gradients that were not sent; waits for exchanges in progress.
  ~AsyncCommunicator();

  // Copies the gradients of a step into the queue; blocks while the queue is full.
  // DEADLINE_EXCEEDED: it stayed full for the timeout. Returns the first error of an exchange;
  // nothing is sent after that error.
  Status Send(uint64_t step, float learning_rate, std::span<const float* const> gradients,
              std::vector<RowSet> rows = {});
  // Copies parameters pulled since the last call into `params`; false: there are none.
  bool Receive(std::span<float* const> params);
  // Sends the queued gradients and ends the threads. Returns the first error.
  Status Finish();

 private:
  void SendLoop();
  void ReceiveLoop();
  // Takes steps from the queue and merges them into pushes. Returns the number of steps; 0: the
  // queue has ended.
  int Take(std::vector<GradientSet>* pushes);
  // Adds `step` to the pushes; the last push may have room for it.
  void Merge(GradientSet step, std::vector<GradientSet>* pushes);
  void Average(GradientSet* push) const;
  bool WantsPull() TD_REQUIRES(mu_);
  void Arrived(const StatusOr<uint64_t>& version, ValueSets* pulled);
  void Stop();
  ValueSets Empty() const;

  const AsyncOptions options_;
  const std::vector<int64_t> sizes_;
  const Exchange exchange_;
  BoundedQueue<GradientSet> queue_;
  BoundedQueue<GradientSet> spare_;  // memory of sent sets, for reuse
  Mutex mu_;
  CondVar sent_cv_;
  int sent_ TD_GUARDED_BY(mu_) = 0;  // steps since the last pull began
  bool ending_ TD_GUARDED_BY(mu_) = false;
  Status status_ TD_GUARDED_BY(mu_);
  uint64_t version_ TD_GUARDED_BY(mu_) = 0;  // version of fresh_
  uint64_t used_ TD_GUARDED_BY(mu_) = 0;     // version that Receive returned last
  bool has_fresh_ TD_GUARDED_BY(mu_) = false;
  ValueSets fresh_ TD_GUARDED_BY(mu_);
  std::vector<std::thread> senders_;
  std::thread receiver_;  // not joinable: none
};

}  // namespace tandem::trainer
