#include "pserver/service/state_log.h"

#include "absl/strings/str_format.h"

namespace tandem::pserver {
namespace {

std::string Contents(const StateLog::Transfer& t) {
  return absl::StrFormat("%d row buckets and slices, %d rows, %d bytes", t.buckets, t.rows,
                         t.bytes);
}

}  // namespace

std::string StateLog::Joined(int trainer, uint64_t incarnation, const std::string& job) {
  MutexLock lock(mu_);
  const auto [it, is_new] = incarnations_.try_emplace(trainer, incarnation);
  if (is_new) {
    return absl::StrFormat("trainer %d joined job \"%s\" (incarnation %d)", trainer, job,
                           incarnation);
  }
  if (incarnation <= it->second) return "";
  it->second = incarnation;
  return absl::StrFormat("trainer %d was replaced by incarnation %d", trainer, incarnation);
}

std::string StateLog::Left(int trainer, int remaining) {
  MutexLock lock(mu_);
  if (incarnations_.erase(trainer) == 0) return "";
  return absl::StrFormat("trainer %d has completed the job; %d trainers remain", trainer,
                         remaining);
}

std::string StateLog::TransferBegan(const Transfer& sent) {
  MutexLock lock(mu_);
  const auto [it, is_new] = transfers_.try_emplace(sent.peer, Begun{clock_.Now(), sent});
  if (!is_new && it->second.sent == sent) return "";
  it->second = {clock_.Now(), sent};
  return absl::StrFormat("transfer to pserver %d begins: %s", sent.peer, Contents(sent));
}

std::string StateLog::TransferEnded(int peer, bool committed) {
  MutexLock lock(mu_);
  const auto it = transfers_.find(peer);
  if (it == transfers_.end()) return "";
  const Begun begun = it->second;
  transfers_.erase(it);
  return absl::StrFormat("transfer to pserver %d %s after %.3f s: %s", peer,
                         committed ? "ended" : "was rolled back", Seconds(clock_.Now() - begun.at),
                         Contents(begun.sent));
}

std::string StateLog::Received(const Transfer& received) {
  return absl::StrFormat("transfer from pserver %d received: %s", received.peer,
                         Contents(received));
}

std::string StateLog::SnapshotBegan(uint64_t number) {
  MutexLock lock(mu_);
  if (number == snapshot_) return "";
  snapshot_ = number;
  snapshot_at_ = clock_.Now();
  return absl::StrFormat("snapshot %d of all servers begins: new pushes wait", number);
}

std::string StateLog::SnapshotEnded(uint64_t number, int64_t bytes) {
  MutexLock lock(mu_);
  if (number == 0 || number != snapshot_) return "";
  const double seconds = Seconds(clock_.Now() - snapshot_at_);
  if (bytes < 0) return absl::StrFormat("snapshot %d failed after %.3f s", number, seconds);
  return absl::StrFormat("snapshot %d ended after %.3f s: %d bytes", number, seconds, bytes);
}

}  // namespace tandem::pserver
