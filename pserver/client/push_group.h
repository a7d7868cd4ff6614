// The messages of one push of a sync step. Servers may reject some of the messages.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "pserver/client/job/owner_map.h"
#include "pserver/client/push_call.h"

namespace tandem::ps {

// A server accepts rows of a table only once per step and trainer. Rows can therefore move to
// another server only when it is known which messages to that server were rejected. The client
// waits only for such messages: an accepted message may get its reply only after all trainers have
// made the step.
//
// States of a message: expected, in progress, then ended or rejected. After TakeRejected, a
// rejected message is in progress again, or its contents become other messages. Thread-safe.
class PushGroup {
 public:
  using OwnersOf = std::function<std::set<size_t>(const PushPart&)>;

  // Expects one message for each part.
  explicit PushGroup(const std::vector<PushPart>& parts);

  void Expect(size_t messages);
  // The message is now in progress. REQUIRES: a message is expected.
  void Begin(const PushCall& call);
  void End(const PushCall& call);
  // Records that a server rejected the message of `call`. Returns true if the caller must find the
  // new owners and then call TakeRejected. Returns false if another call already looks for the
  // owners.
  bool Reject(std::shared_ptr<PushCall> call);
  std::set<size_t> RejectedBy() const;

  struct Rejected {
    std::vector<std::shared_ptr<PushCall>> late;  // messages whose deadline has passed
    std::vector<std::shared_ptr<PushCall>> same;  // messages that are sent again unchanged
    // Messages whose contents are split for the current owners.
    std::vector<std::shared_ptr<PushCall>> resplit;
    bool must_wait = false;  // messages in progress must end before other messages can be split
  };
  // Takes the rejected messages, except messages that must wait. `over`: treats all rejected
  // messages as late. REQUIRES: Reject returned true, and LooksAgain has not returned false since.
  Rejected TakeRejected(Time now, bool over, const OwnerMap& owners, const OwnersOf& owners_of);
  // Whether the group still has rejected messages, so that the caller must find their owners again.
  bool LooksAgain();
  int NextWait();  // returns the number of earlier waits

  // Notes that rows of `calls` move to `owners`. Returns the servers that had no rows of the group
  // before. These servers need an entry for every table.
  std::set<size_t> MoveRows(const std::vector<std::shared_ptr<PushCall>>& calls,
                            const std::set<size_t>& owners);

 private:
  // Whether rows of `resplit` could reach a server to which other messages are in progress.
  bool MustWait(const std::vector<std::shared_ptr<PushCall>>& resplit, const OwnerMap& owners,
                const OwnersOf& owners_of) const TD_REQUIRES(mu_);

  mutable Mutex mu_;
  size_t expected_ TD_GUARDED_BY(mu_);
  std::vector<const PushCall*> in_progress_ TD_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<PushCall>> rejected_ TD_GUARDED_BY(mu_);
  bool looking_ TD_GUARDED_BY(mu_) = false;
  int waits_ TD_GUARDED_BY(mu_) = 0;
  std::set<size_t> row_servers_ TD_GUARDED_BY(mu_);  // servers to which rows of the group were sent
};

}  // namespace tandem::ps
