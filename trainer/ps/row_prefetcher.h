// Prefetches the rows of the next batch. The trainer sends the request after the push that changes
// these rows. The servers reply as soon as the step is complete, while the trainer still finishes
// its own step.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pserver/client/client.h"

namespace tandem::trainer {

// Remembers only the last prefetch. Only one thread may use this object; replies arrive on threads
// of the client.
class RowPrefetcher {
 public:
  using Done = std::function<void(const Status&)>;

  // Requests `rows` at exactly version `version` of the parameters. Ignores the destinations in
  // `rows`. `dims`: values per row of each table.
  void Ask(ps::PsClient& client, uint64_t version, std::vector<ps::PsRows> rows,
           const std::vector<int64_t>& dims);
  // Returns false if the last Ask requested other rows or another version, or if there was no Ask.
  // Otherwise returns true, copies the rows to their destinations after they have arrived, and then
  // calls `done` with the status of the pull. `done` runs on a client thread, or before Give
  // returns.
  bool Give(uint64_t version, const std::vector<ps::PsRows>& rows, Done done);

 private:
  struct Pull;
  std::shared_ptr<Pull> pull_;  // the pull that the last Ask started
};

}  // namespace tandem::trainer
