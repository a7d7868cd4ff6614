// The replies that a follower has not handled yet.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/mutex.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/reader_options.h"

namespace tandem::ps {

// Callbacks of calls add replies; the follower's thread takes them. Thread-safe. Callbacks hold a
// shared_ptr, because calls may end after the follower.
template <typename Reply>
class ReplyInbox {
 public:
  void Add(Reply reply) {
    MutexLock lock(mu_);
    replies_.push_back(std::move(reply));
    if (filled_ != nullptr) filled_->Set();
  }

  // Waits until there is a reply, until `until`, and for at most kStopInterval.
  void Await(PsChannel& channel, Time until) {
    const Time deadline = std::min(until, channel.Now() + kStopInterval);
    std::shared_ptr<PsEvent> filled = channel.MakeEvent();
    {
      MutexLock lock(mu_);
      if (!replies_.empty()) return;
      filled_ = filled;
    }
    filled->WaitUntil(deadline);
  }

  // Returns the oldest reply; nullopt: there is none.
  std::optional<Reply> Take() {
    MutexLock lock(mu_);
    if (replies_.empty()) return std::nullopt;
    std::optional<Reply> oldest(std::move(replies_.front()));
    replies_.pop_front();
    return oldest;
  }

 private:
  Mutex mu_;
  std::shared_ptr<PsEvent> filled_ TD_GUARDED_BY(mu_);  // event of the newest wait; null: none
  std::deque<Reply> replies_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
