// Gradients out and parameters back behind a trainer's back, as Fleet's Communicator does it:
// the trainer lays the gradients of a step into a queue and goes on; senders merge what waits there
// and push it; parameters that came meanwhile are taken between two steps, all together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// The fields of a_sync_configs of which the names remind.
struct AsyncOptions {
  int merge_max = 1;         // steps that a sender takes together
  int dense_merge_max = 12;  // of them, those whose dense gradients are one push,
  int rows_merge_max = 12;   // ... and those whose rows are
  int queue_max = 16;        // steps that wait
  int senders = 1;           // threads that push
  int merge_waits = 1;       // times 10 ms that a sender waits for one more step to merge
  bool recv_thread = false;  // parameters are pulled by a thread of their own
  int sent_before_recv = 1;  // steps to send before the next pull
  bool sum = true;           // merged gradients are added up; false: averaged
  Duration timeout = std::chrono::seconds(60);  // for a place in the queue
};

// Values of all variables, in their order.
using ValueSets = std::vector<std::vector<float>>;
// A gradient of some rows of a table: ascending ids, and `dim` values for each, of which the first
// `counts` count something and so are added up in any case.
struct RowSet {
  std::vector<int64_t> ids;
  std::vector<float> values;
  int64_t dim = 0, counts = 0;
};
// Adds `more` to `sum`.
void MergeRows(const RowSet& more, RowSet* sum);

struct GradientSet {
  uint64_t step = 0;        // the newest of those merged
  uint64_t version = 0;     // of the parameters of the oldest; 0: those from which it began
  float learning_rate = 0;  // its own
  // Merged in `values` and in `rows`; 0: there are none.
  int dense_steps = 1, row_steps = 1;
  ValueSets values;
  std::vector<RowSet> rows;  // by table
};

// Send, Receive and Finish: one thread, that of the trainer.
class AsyncCommunicator {
 public:
  // Pushes `push` and pulls into `pull` (either may be null); blocking; gives the version pulled.
  // Called by several threads at once. `pull` has the sizes of the variables.
  using Exchange = std::function<StatusOr<uint64_t>(const GradientSet* push, ValueSets* pull)>;

  // `sizes`: elements of each variable.
  AsyncCommunicator(AsyncOptions options, std::vector<int64_t> sizes, Exchange exchange);
  // Throws away what was not sent; waits for exchanges under way.
  ~AsyncCommunicator();

  // Copies the gradients of a step into the queue, blocking while it is full: DEADLINE_EXCEEDED
  // after the timeout. The first error of an exchange is given back here, and nothing is sent any
  // more.
  Status Send(uint64_t step, float learning_rate, std::span<const float* const> gradients,
              std::vector<RowSet> rows = {});
  // Copies parameters that came since the last call to `params`; false when none did.
  bool Receive(std::span<float* const> params);
  // Sends what waits, and ends the threads. The first error.
  Status Finish();

 private:
  void SendLoop();
  void ReceiveLoop();
  // Takes steps from the queue and merges them into pushes; gives their number, 0 at the end.
  int Take(std::vector<GradientSet>* pushes);
  // Adds `step` to the pushes, of which the last may take more.
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
  BoundedQueue<GradientSet> spare_;  // memory of sent ones, to be used again
  Mutex mu_;
  CondVar sent_cv_;
  int sent_ TD_GUARDED_BY(mu_) = 0;  // steps since the last pull began
  bool ending_ TD_GUARDED_BY(mu_) = false;
  Status status_ TD_GUARDED_BY(mu_);
  uint64_t version_ TD_GUARDED_BY(mu_) = 0;  // of fresh_
  uint64_t used_ TD_GUARDED_BY(mu_) = 0;     // of what Receive gave last
  bool has_fresh_ TD_GUARDED_BY(mu_) = false;
  ValueSets fresh_ TD_GUARDED_BY(mu_);
  std::vector<std::thread> senders_;
  std::thread receiver_;  // not joinable: none
};

}  // namespace tandem
