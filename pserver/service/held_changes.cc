#include "pserver/service/held_changes.h"

#include <algorithm>
#include <limits>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/require.h"
#include "proto/pserver.pb.h"
#include "pserver/service/change_calls.h"

namespace tandem::pserver {
namespace {

constexpr uint32_t kWaitMsMax = 60'000;  // maximum of FetchChangesRequest::wait_ms
constexpr uint64_t kWatchMs = 60'000;    // time limit of one wait in the shard
constexpr Duration kWatchPause = std::chrono::seconds(1);  // after the shard refused a wait
constexpr Duration kQueueWait = std::chrono::seconds(5);   // time limit for a thread of the runner
constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

}  // namespace

struct HeldChanges::Call {
  FetchChangesRequest request;  // its position advances while there are no changes for the reader
  FetchChangesReply* reply = nullptr;
  Time until;            // time of the reply, also without changes
  Finish finish;         // set by Answer
  uint64_t version = 0;  // version of the newest read
  Time next;             // earliest time of the next read
  bool again = false;    // true: reads at `next`, whatever the version is
  // Guarded by State::mu. true: the caller has disconnected.
  bool gone = false;
};

struct HeldChanges::State {
  mutable Mutex mu;
  CondVar cv;
  std::list<std::shared_ptr<Call>> held TD_GUARDED_BY(mu);
  // A version that the server has reached; kUnknown: the wait in the shard has failed.
  uint64_t newest TD_GUARDED_BY(mu) = 0;
  bool watching TD_GUARDED_BY(mu) = false;  // a call waits in the shard
  bool refused TD_GUARDED_BY(mu) = false;   // too many calls waited in the shard
  bool stop TD_GUARDED_BY(mu) = false;
};

HeldChanges::HeldChanges(const StateHistory* history, Shard& shard, Deadlines& deadlines,
                         Runner& runner)
    : history_(history),
      shard_(shard),
      deadlines_(deadlines),
      runner_(runner),
      state_(std::make_shared<State>()),
      thread_([this] { Loop(); }) {}

HeldChanges::~HeldChanges() {
  {
    MutexLock lock(state_->mu);
    TD_REQUIRE(state_->held.empty());
    state_->stop = true;
    state_->cv.NotifyAll();
  }
  thread_.join();
  shard_.Leave(state_.get());
}

size_t HeldChanges::held() const {
  MutexLock lock(state_->mu);
  return state_->held.size();
}

std::shared_ptr<HeldChanges::Call> HeldChanges::Make(const FetchChangesRequest& request,
                                                     FetchChangesReply* reply) const {
  TD_REQUIRE(reply != nullptr);
  auto call = std::make_shared<Call>();
  call->request = request;
  call->reply = reply;
  call->until =
      deadlines_.clock().Now() + std::chrono::milliseconds(std::min(request.wait_ms(), kWaitMsMax));
  return call;
}

void HeldChanges::Answer(const std::shared_ptr<Call>& call, const Finish& finish) {
  call->finish = finish;
  Read(call);
}

void HeldChanges::Read(const std::shared_ptr<Call>& call) {
  TD_REQUIRE(call->finish != nullptr);
  uint64_t newest = 0;
  {
    MutexLock lock(state_->mu);
    newest = state_->newest;
  }
  call->reply->Clear();
  const Status status = FetchTableChanges(call->request, history_, shard_, call->reply);
  if (status.ok() && !HasChanges(call->request, *call->reply) &&
      deadlines_.clock().Now() < call->until && Hold(call, newest)) {
    return;
  }
  shard_.WhenLogged([status, finish = std::move(call->finish)](const Status& written) {
    finish(status.ok() ? written : status);
  });
}

bool HeldChanges::Hold(const std::shared_ptr<Call>& call, uint64_t newest) {
  bool back = false;
  {
    MutexLock lock(state_->mu);
    if (call->gone || state_->held.size() >= kHeldMax) return false;
    *call->request.mutable_position() = call->reply->position();
    call->version = call->reply->version();
    call->next = deadlines_.clock().Now() + kPause;
    call->again = false;
    // After a restore, the server may have a lower version than before.
    back = call->version < newest;
    state_->newest = back ? call->version : std::max(state_->newest, call->version);
    state_->held.push_back(call);
    state_->cv.NotifyAll();
  }
  if (back) shard_.Leave(state_.get());
  return true;
}

void HeldChanges::Leave(const std::shared_ptr<Call>& call) {
  {
    MutexLock lock(state_->mu);
    call->gone = true;
    if (std::erase(state_->held, call) == 0) return;  // a read is under way, or the call has ended
  }
  std::exchange(call->finish, nullptr)(Cancelled("the caller closed its connection"));
}

void HeldChanges::Loop() {
  SetThreadName("changes");
  Time watch_from;  // earliest time of the next wait in the shard
  while (true) {
    std::vector<std::shared_ptr<Call>> due;
    std::optional<uint64_t> watched;
    {
      MutexLock lock(state_->mu);
      if (state_->stop) return;
      const Time now = deadlines_.clock().Now();
      Time wake = now + std::chrono::milliseconds(kWatchMs);
      uint64_t lowest = kUnknown;
      for (auto it = state_->held.begin(); it != state_->held.end();) {
        const Call& call = **it;
        const bool changed = call.version < state_->newest;
        const Time at = call.again ? call.next
                        : changed  ? std::min(call.next, call.until)
                                   : call.until;
        if (at <= now) {
          due.push_back(std::move(*it));
          it = state_->held.erase(it);
          continue;
        }
        wake = std::min(wake, at);
        if (!changed) lowest = std::min(lowest, call.version);
        ++it;
      }
      if (std::exchange(state_->refused, false)) watch_from = now + kWatchPause;
      if (lowest != kUnknown && !state_->watching) {
        if (watch_from <= now) watched = lowest + 1;
        wake = std::min(wake, std::max(now, watch_from));
      }
      if (watched) state_->watching = true;
      if (due.empty() && !watched) state_->cv.WaitUntil(state_->mu, wake);
    }
    for (const std::shared_ptr<Call>& call : due) ReadLater(call);
    if (watched) Watch(*watched);
  }
}

void HeldChanges::ReadLater(const std::shared_ptr<Call>& call) {
  const Status posted = runner_.Post([this, call] { Read(call); });
  if (posted.ok()) return;
  const Time now = deadlines_.clock().Now();
  {
    MutexLock lock(state_->mu);
    if (!call->gone && now < call->until + kQueueWait) {
      // The threads have too much to do: tries again after a pause.
      call->again = true;
      call->next = now + kPause;
      state_->held.push_back(call);
      return;
    }
  }
  std::exchange(call->finish, nullptr)(posted);
}

void HeldChanges::Watch(uint64_t version) {
  PullQuery query;
  query.caller.job = shard_.Job();
  query.observer = query.version_only = true;
  query.min_version = version;
  const Time deadline = deadlines_.After(kWatchMs);
  shard_.Pull(
      query, deadline,
      [state = state_](const StatusOr<PullResult>& result) {
        const StatusCode code = result.status().code();
        MutexLock lock(state->mu);
        state->watching = false;
        if (result.ok()) {
          state->newest = std::max(state->newest, result->version);
        } else if (code == StatusCode::kResourceExhausted) {
          state->refused = true;
        } else if (code != StatusCode::kDeadlineExceeded && code != StatusCode::kCancelled) {
          state->newest = kUnknown;  // the reads find out what has happened
        }
        state->cv.NotifyAll();
      },
      state_.get());
  deadlines_.Poke(deadline);
}

}  // namespace tandem::pserver
