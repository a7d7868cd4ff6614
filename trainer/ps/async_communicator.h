// Pushes gradients and pulls parameters in the background, like Fleet's Communicator. The trainer
// puts the gradients of a step into a queue and continues. Sender threads merge the queued
// gradients and push them. Between two steps the trainer copies the parameters that were pulled
// since the previous step.
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

// Options of asynchronous training, from a_sync_configs and runtime_flags of the strategy.
struct AsyncOptions {
  int merge_max = 1;         // maximum number of steps that a sender merges
  int dense_merge_max = 12;  // maximum number of steps in a push of dense gradients
  int rows_merge_max = 12;   // maximum number of steps in a push of rows
  int queue_max = 16;        // capacity of the gradient queue, in steps
  int senders = 1;           // number of threads that push gradients
  int merge_waits = 1;       // maximum number of waits for further steps to merge, 10 ms each
  bool recv_thread = false;  // true: a separate thread pulls parameters
  int sent_before_recv = 1;  // number of steps to push between two pulls
  bool sum = true;           // true: add the merged gradients up; false: average the gradients
  Duration timeout = std::chrono::seconds(60);  // longest wait for space in the gradient queue
};

// The values of all variables, one vector for each variable, in the order of the variables.
using ValueSets = std::vector<std::vector<float>>;
// The gradient of some rows of a table: ascending ids, and `dim` values for each id. The first
// `counts` values of a row are counters, which are added up even if gradients are averaged.
struct RowSet {
  std::vector<int64_t> ids;
  std::vector<float> values;
  int64_t dim = 0, counts = 0;
};
// Adds the gradients in `more` to the gradients in `sum`. `*sum` then has all rows of both sets.
void MergeRows(const RowSet& more, RowSet* sum);

struct GradientSet {
  uint64_t step = 0;          // number of the newest merged step
  uint64_t version = 0;       // version of the parameters that the oldest merged step used; 0: the
                              // trainer's first parameters
  float learning_rate = 0;    // learning rate of the newest merged step
  int64_t event_time_ms = 0;  // highest event time of the merged steps (PsClient::Push)
  int dense_steps = 1, row_steps = 1;  // number of steps merged into `values` and `rows`; 0: none
  ValueSets values;
  std::vector<RowSet> rows;  // gradients of table rows, one set for each table
};

// Pushes gradients and pulls parameters on its own threads. Only the trainer's thread may call
// Send, Receive and Finish.
class AsyncCommunicator {
 public:
  // Pushes the gradients `push` and pulls parameters into `pull`, which has the sizes of the
  // variables. A null pointer: pushes or pulls nothing. Returns the version of the pulled
  // parameters. Blocks. Several threads call this function concurrently.
  using Exchange = std::function<StatusOr<uint64_t>(const GradientSet* push, ValueSets* pull)>;

  // `sizes`: number of elements of each variable.
  AsyncCommunicator(AsyncOptions options, std::vector<int64_t> sizes, Exchange exchange);
  // Discards the gradients in the queue, and blocks until the exchanges in progress have ended.
  ~AsyncCommunicator();

  // Copies the gradients of a step into the queue. Blocks while the queue is full.
  // DEADLINE_EXCEEDED: the queue was full for the whole timeout. If an exchange has failed, returns
  // the first error of an exchange and sends nothing.
  // `event_time_ms`: the event time of the step (PsClient::Push).
  Status Send(uint64_t step, float learning_rate, std::span<const float* const> gradients,
              std::vector<RowSet> rows = {}, int64_t event_time_ms = 0);
  // Copies the parameters that were pulled since the last call into `params`. Returns false if no
  // parameters were pulled.
  bool Receive(std::span<float* const> params);
  // Sends the queued gradients and ends the threads. Blocks until the threads have ended. Returns
  // the first error of an exchange.
  Status Finish();

 private:
  void SendLoop();
  void ReceiveLoop();
  // Removes steps from the queue and merges their gradients into `pushes`. Returns the number of
  // removed steps. 0: the queue is closed and empty.
  int Take(std::vector<GradientSet>* pushes);
  // Merges the gradients of `step` into the first push with space for one more step, or into a new
  // push.
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
  BoundedQueue<GradientSet> spare_;  // memory of sent gradients, for reuse
  Mutex mu_;
  CondVar sent_cv_;
  int sent_ TD_GUARDED_BY(mu_) = 0;  // number of steps sent since the last pull began
  bool ending_ TD_GUARDED_BY(mu_) = false;
  Status status_ TD_GUARDED_BY(mu_);
  uint64_t version_ TD_GUARDED_BY(mu_) = 0;  // version of the parameters in fresh_
  uint64_t used_ TD_GUARDED_BY(mu_) = 0;  // version of the parameters that the last Receive copied
  bool has_fresh_ TD_GUARDED_BY(mu_) = false;
  ValueSets fresh_ TD_GUARDED_BY(mu_);
  std::vector<std::thread> senders_;
  std::thread receiver_;  // pulls parameters; not joinable: the senders pull the parameters
};

}  // namespace tandem::trainer
