// Lists of calls that wait at a server for actions of other trainers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <utility>
#include <vector>

#include "common/base/require.h"
#include "pserver/shard/trainers/trainer_registry.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// Replies that are ready to be sent. Each reply is sent without the lock, after the changes that
// the reply contains are logged.
using ReadyAnswers = std::vector<WriteAheadLog::Written>;

struct WaitingCall {
  int trainer;  // rank of the caller; -1: an observer
  Time since, deadline;
  uint64_t incarnation = 0;   // incarnation of the trainer that called
  const void* tag = nullptr;  // identifies the call for Leave; null: the call cannot be withdrawn
};

// A list of waiting calls. Add begins a wait of the trainer (TrainerRegistry::BeginWait), and the
// removal of the call ends the wait. `Call` is a WaitingCall with a function `done`. To fail a
// call, the list calls `done` once with a Status, or with a type made from a Status. Not
// thread-safe.
template <typename Call>
class WaitList {
 public:
  static constexpr size_t kCallsMax = 65536;

  // `roster` must outlive the list. The owner must not reset `roster` (TrainerRegistry::Begin)
  // while a call waits.
  explicit WaitList(TrainerRegistry& roster) : roster_(roster) {}

  bool empty() const { return calls_.empty(); }
  size_t size() const { return calls_.size(); }
  size_t observers() const { return observers_; }  // number of waiting calls of observers
  auto begin() const { return calls_.begin(); }
  auto end() const { return calls_.end(); }

  // Adds a call. REQUIRES: size() < kCallsMax.
  void Add(Call call) {
    TD_REQUIRE(size() < kCallsMax);
    roster_.BeginWait(call.trainer);
    if (call.trainer < 0) ++observers_;
    calls_.push_back(std::move(call));
  }

  // Removes the calls for which `goes(call)` is true, in order of arrival. Passes each removed call
  // to `take(Call&)`.
  template <typename Goes, typename Take>
  void TakeIf(const Goes& goes, const Take& take) {
    for (auto it = calls_.begin(); it != calls_.end();) {
      if (!goes(*it)) {
        ++it;
        continue;
      }
      roster_.EndWait(it->trainer);
      if (it->trainer < 0) --observers_;
      take(*it);
      it = calls_.erase(it);
    }
  }

  // Removes the calls for which `why(call)` is not OK. `done` of each removed call receives the
  // status.
  template <typename Why>
  void FailIf(const Why& why, ReadyAnswers& ready) {
    Status status;
    TakeIf(
        [&](const Call& call) {
          status = why(call);
          return !status.ok();
        },
        [&](Call& call) {
          ready.push_back([done = std::move(call.done), status](const Status&) { done(status); });
        });
  }
  // Returns whether the trainer was restarted after the call, so that no process waits for the
  // reply.
  bool IsReplaced(const Call& call) const {
    return call.trainer >= 0 && call.incarnation < roster_[call.trainer].incarnation;
  }
  bool HasReplaced() const {
    return std::any_of(begin(), end(), [this](const Call& call) { return IsReplaced(call); });
  }
  void FailReplaced(ReadyAnswers& ready) {
    FailIf(
        [this](const Call& call) -> Status {
          if (!IsReplaced(call)) return OkStatus();
          return FailedPrecondition(
              "trainer %d was restarted as incarnation %d, so calls of incarnation %d are rejected "
              "[TD4008]",
              call.trainer, roster_[call.trainer].incarnation, call.incarnation);
        },
        ready);
  }
  // Removes the call with this tag, because its caller has disconnected. `done` receives CANCELLED.
  void Leave(const void* tag, ReadyAnswers& ready) {
    FailIf(
        [tag](const Call& call) {
          return call.tag == tag ? Cancelled("the caller closed its connection") : OkStatus();
        },
        ready);
  }
  void FailAll(const Status& status, ReadyAnswers& ready) {
    FailIf([&status](const Call&) { return status; }, ready);
  }

  Time NextDeadline() const {  // earliest deadline; Time::max(): no call waits
    Time next = Time::max();
    for (const Call& call : calls_) next = std::min(next, call.deadline);
    return next;
  }

 private:
  TrainerRegistry& roster_;
  std::list<Call> calls_;
  size_t observers_ = 0;  // calls without a trainer in `calls_`
};

}  // namespace tandem::pserver
