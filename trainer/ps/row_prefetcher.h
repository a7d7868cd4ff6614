// Rows of the next batch, asked for behind the push whose changes they are to have: servers answer
// as soon as the step is complete, while the trainer still ends its own.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pserver/client/client.h"

namespace tandem {

// One thread; pulls end on others.
class RowPrefetcher {
 public:
  using Done = std::function<void(const Status&)>;

  // Asks for `rows`, of which the places are left out, as they are in exactly this version. `dims`:
  // their lengths.
  void Ask(PsClient& client, uint64_t version, std::vector<PsRows> rows,
           const std::vector<int64_t>& dims);
  // False when it was not these rows that were asked for, or not of this version. Else they go to
  // their places, and `done` is called, once they have come, on a thread of the client or before
  // this returns; or with what became of the pull.
  bool Give(uint64_t version, const std::vector<PsRows>& rows, Done done);

 private:
  struct Pull;
  std::shared_ptr<Pull> pull_;  // the last one
};

}  // namespace tandem
