// Prefetches the rows of the next batch. The request follows the push that changes these rows. The
// servers reply as soon as the step is complete, while the trainer still finishes its own step.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pserver/client/client.h"

namespace tandem::trainer {

// Must be used by one thread; pulls end on other threads.
class RowPrefetcher {
 public:
  using Done = std::function<void(const Status&)>;

  // Requests `rows` at exactly this version. The rows have no destinations yet. `dims`: their
  // lengths.
  void Ask(ps::PsClient& client, uint64_t version, std::vector<ps::PsRows> rows,
           const std::vector<int64_t>& dims);
  // Returns false if the last Ask had other rows or another version. Otherwise copies the rows to
  // their destinations once they have arrived, and calls `done` with the pull's status. `done` runs
  // on a client thread, or before this call returns.
  bool Give(uint64_t version, const std::vector<ps::PsRows>& rows, Done done);

 private:
  struct Pull;
  std::shared_ptr<Pull> pull_;  // the last Ask
};

}  // namespace tandem::trainer
