#include "pserver/client/push_group.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"
#include "pserver/client/calls.h"

namespace tandem::ps {

PushGroup::PushGroup(const std::vector<PushPart>& parts, Joins joins)
    : joins_(joins), expected_(parts.size()) {
  for (const PushPart& part : parts) {
    if (HasRows(part)) row_servers_.insert(part.server);
  }
}

void PushGroup::Expect(size_t messages) {
  MutexLock lock(mu_);
  expected_ += messages;
}

void PushGroup::Begin(const PushCall& call) {
  MutexLock lock(mu_);
  TD_REQUIRE(expected_ > 0);
  --expected_;
  in_progress_.push_back(&call);
}

void PushGroup::End(const PushCall& call, const Status& status) {
  MutexLock lock(mu_);
  std::erase(in_progress_, &call);
  failure_.Update(status);
}

bool PushGroup::Reject(std::shared_ptr<PushCall> call) {
  MutexLock lock(mu_);
  [[maybe_unused]] const size_t ended = std::erase(in_progress_, call.get());
  TD_REQUIRE(ended == 1);
  // The other rejected messages wait for the contents of a message whose server is gone.
  if (call->gone) gone_until_ = std::max(gone_until_, call->deadline);
  rejected_.push_back(std::move(call));
  for (const auto& other : rejected_) other->deadline = std::max(other->deadline, gone_until_);
  return !std::exchange(looking_, true);
}

std::set<size_t> PushGroup::RejectedBy() const {
  MutexLock lock(mu_);
  std::set<size_t> servers;
  for (const auto& call : rejected_) {
    if (!call->gone) servers.insert(call->part.server);
  }
  return servers;
}

bool PushGroup::JoinsOthers(const PushPart& part) const {
  return joins_ == Joins::kAll || HasRows(part);
}

// Only messages in progress can conflict with `resplit`. If a server accepted a message, the rows
// of that message are not in the move that caused the rejections.
bool PushGroup::MustWait(const std::vector<std::shared_ptr<PushCall>>& resplit,
                         const OwnerMap& owners, const OwnersOf& owners_of) const {
  // The servers that had no rows of this group before, and the servers that the rows of `resplit`
  // leave or reach.
  std::set<size_t> servers = owners.RowOwners();
  for (const size_t server : row_servers_) servers.erase(server);
  for (const auto& call : resplit) {
    if (!JoinsOthers(call->part)) continue;
    servers.merge(owners_of(call->part));
    servers.insert(call->part.server);
  }
  const auto meets = [&](const PushCall* call) {
    if (!JoinsOthers(call->part)) return false;
    std::set<size_t> of_call = owners_of(call->part);
    of_call.insert(call->part.server);
    return std::any_of(of_call.begin(), of_call.end(),
                       [&](size_t s) { return servers.contains(s); });
  };
  return expected_ > 0 || std::any_of(in_progress_.begin(), in_progress_.end(), meets);
}

PushGroup::Rejected PushGroup::TakeRejected(Time now, bool over, const OwnerMap& owners,
                                            const OwnersOf& owners_of) {
  Rejected taken;
  MutexLock lock(mu_);
  TD_REQUIRE(looking_);
  // A message of a step that waits for others does so until their calls have ended.
  const Duration more =
      joins_ == Joins::kAll && !in_progress_.empty() ? 2 * kGrace : Duration::zero();
  const bool late = std::ranges::any_of(
      rejected_, [&](const auto& call) { return now >= call->deadline + more; });
  if (late || over || !failure_.ok()) {
    taken.late.swap(rejected_);
    taken.failure = failure_;
    return taken;
  }
  for (auto& call : std::exchange(rejected_, {})) {
    (call->stale ? taken.resplit : taken.same).push_back(std::move(call));
  }
  for (const auto& call : taken.same) in_progress_.push_back(call.get());
  // While the messages in `resplit` wait, they must not count as in progress, because waiting
  // messages would otherwise wait for each other.
  taken.must_wait = !taken.resplit.empty() && MustWait(taken.resplit, owners, owners_of);
  if (taken.must_wait) rejected_.swap(taken.resplit);
  return taken;
}

bool PushGroup::LooksAgain() {
  MutexLock lock(mu_);
  looking_ = !rejected_.empty();
  return looking_;
}

int PushGroup::NextWait() {
  MutexLock lock(mu_);
  return waits_++;
}

std::set<size_t> PushGroup::MoveRows(const std::vector<std::shared_ptr<PushCall>>& calls,
                                     const std::set<size_t>& owners) {
  MutexLock lock(mu_);
  for (const auto& call : calls) {
    if (HasRows(call->part)) row_servers_.erase(call->part.server);
  }
  std::set<size_t> added;
  for (const size_t server : owners) {
    if (row_servers_.insert(server).second) added.insert(server);
  }
  return added;
}

}  // namespace tandem::ps
