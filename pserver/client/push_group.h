// The messages of one push of a step, if buckets move between steps. Servers may reject some of the
// messages.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/client/job/owner_map.h"
#include "pserver/client/push_call.h"

namespace tandem::ps {

// Records the states of the messages of one push.
//
// Sync: a server accepts rows of a table only once per step and trainer. With
// PsJobRules::each_step_once: a server that has a message of a step counts the step, so the message
// must have all contents of the step for this server. Before the client sends rejected contents to
// another server, the client must therefore know which of its messages that server rejected. The
// client waits for no further messages: in sync mode, a server may reply to an accepted message
// only after all trainers have made the step.
//
// States of a message: expected, in progress, then ended or rejected. After TakeRejected, a
// rejected message is in progress again, or its contents become new messages.
//
// After a message of the group has ended with an error, the client sends no rejected message again.
// Otherwise the servers could complete the step without the rows of the failed message.
// Thread-safe.
class PushGroup {
 public:
  using OwnersOf = std::function<std::set<size_t>(const PushPart&)>;
  // The rejected messages that must reach their new owner as one message: those with rows, or all.
  enum class Joins : uint8_t { kRows, kAll };

  // Expects one message for each part.
  PushGroup(const std::vector<PushPart>& parts, Joins joins);

  void Expect(size_t messages);
  // Records that the message is now in progress. REQUIRES: a message is expected.
  void Begin(const PushCall& call);
  // Records that the message has ended with `status`.
  void End(const PushCall& call, const Status& status);
  // Records that a server rejected the message of `call`. Returns true if the caller must find the
  // new owners and then call TakeRejected. Returns false if another caller already does so.
  bool Reject(std::shared_ptr<PushCall> call);
  // Returns the servers of the rejected messages, without servers that are gone.
  std::set<size_t> RejectedBy() const;

  struct Rejected {
    // All rejected messages, if they must end with an error: the deadline of a rejected message has
    // passed, or a message of the group has failed.
    std::vector<std::shared_ptr<PushCall>> late;
    Status failure;  // error of the failed message; OK: no message failed
    std::vector<std::shared_ptr<PushCall>> same;  // messages that are sent again unchanged
    // Messages whose contents the caller must split for the current owners.
    std::vector<std::shared_ptr<PushCall>> resplit;
    bool must_wait = false;  // messages in progress must end before `resplit` can be sent
  };
  // Takes the rejected messages, except messages that must wait. `over`: treats all rejected
  // messages as late. REQUIRES: Reject returned true, and LooksAgain has not returned false since.
  Rejected TakeRejected(Time now, bool over, const OwnerMap& owners, const OwnersOf& owners_of);
  // Returns whether the group still has rejected messages. If the result is true, the caller must
  // find their owners again.
  bool LooksAgain();
  int NextWait();  // returns the number of earlier waits

  // Records that rows of `calls` move to `owners`. Returns the servers that had no rows of the
  // group before. Each of these servers needs an entry for every table.
  std::set<size_t> MoveRows(const std::vector<std::shared_ptr<PushCall>>& calls,
                            const std::set<size_t>& owners);

 private:
  bool JoinsOthers(const PushPart& part) const;
  // Returns whether contents of `resplit` that must be joined with others could reach a server to
  // which another message is in progress.
  bool MustWait(const std::vector<std::shared_ptr<PushCall>>& resplit, const OwnerMap& owners,
                const OwnersOf& owners_of) const TD_REQUIRES(mu_);

  const Joins joins_;
  mutable Mutex mu_;
  size_t expected_ TD_GUARDED_BY(mu_);
  std::vector<const PushCall*> in_progress_ TD_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<PushCall>> rejected_ TD_GUARDED_BY(mu_);
  bool looking_ TD_GUARDED_BY(mu_) = false;
  int waits_ TD_GUARDED_BY(mu_) = 0;
  // Latest deadline of a message whose server is gone; Time::min(): no server is gone.
  Time gone_until_ TD_GUARDED_BY(mu_) = Time::min();
  Status failure_ TD_GUARDED_BY(mu_);                // first error with which a message ended
  std::set<size_t> row_servers_ TD_GUARDED_BY(mu_);  // servers to which rows of the group were sent
};

}  // namespace tandem::ps
