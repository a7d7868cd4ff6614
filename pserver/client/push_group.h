// The messages of one push of a sync step, some of which servers may reject.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "pserver/client/owner_map.h"
#include "pserver/client/push_call.h"

namespace tandem::ps {

// A server accepts rows of a table only once per step and trainer. Rows can therefore go to another
// server only when it is known which messages to that server were rejected. The client waits for
// nothing else. An accepted message may get its reply only after all trainers have made the step.
//
// A message is expected, then in progress, then it ends or is rejected. A rejected message is taken
// by TakeRejected and is in progress again, or its contents become other messages. Thread-safe.
class PushGroup {
 public:
  using OwnersOf = std::function<std::set<size_t>(const PushPart&)>;

  // Expects one message for each part.
  explicit PushGroup(const std::vector<PushPart>& parts);

  void Expect(size_t messages);
  // REQUIRES: a message is expected.
  void Begin(const PushCall& call);
  void End(const PushCall& call);
  // true: the caller looks for the new owners, and then calls TakeRejected. false: another call
  // does so already.
  bool Reject(std::shared_ptr<PushCall> call);
  std::set<size_t> RejectedBy() const;

  struct Rejected {
    std::vector<std::shared_ptr<PushCall>> late;     // their time is over
    std::vector<std::shared_ptr<PushCall>> same;     // to be sent again as they are
    std::vector<std::shared_ptr<PushCall>> resplit;  // to be split for the current owners
    bool must_wait = false;  // messages in progress must end before messages can be split
  };
  // Takes the rejected messages, except those that must wait. `over`: all are late. REQUIRES:
  // Reject returned true, and LooksAgain has not returned false since.
  Rejected TakeRejected(Time now, bool over, const OwnerMap& owners, const OwnersOf& owners_of);
  // Whether messages are still rejected, so that the caller looks again.
  bool LooksAgain();
  int NextWait();  // number of waits so far

  // Rows of `calls` move to `owners`. Returns the servers that had no rows of the group before:
  // they need an entry for every table.
  std::set<size_t> MoveRows(const std::vector<std::shared_ptr<PushCall>>& calls,
                            const std::set<size_t>& owners);

 private:
  // Whether rows of these messages could reach a server to which other messages are in progress.
  bool MustWait(const std::vector<std::shared_ptr<PushCall>>& resplit, const OwnerMap& owners,
                const OwnersOf& owners_of) const TD_REQUIRES(mu_);

  mutable Mutex mu_;
  size_t expected_ TD_GUARDED_BY(mu_);
  std::vector<const PushCall*> in_progress_ TD_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<PushCall>> rejected_ TD_GUARDED_BY(mu_);
  bool looking_ TD_GUARDED_BY(mu_) = false;
  int waits_ TD_GUARDED_BY(mu_) = 0;
  std::set<size_t> row_servers_ TD_GUARDED_BY(mu_);  // servers to which rows were sent
};

}  // namespace tandem::ps
