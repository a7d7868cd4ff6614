#include "pserver/client/pushes/push_retransmit_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/require.h"

namespace tandem::ps {
namespace {

constexpr size_t kSpareMax = 64;  // maximum number of spare buffers

bool IsDense(const codec::CodedSlice& s) {
  return s.desc.dtype == DType::kF32 && s.desc.shape.rank() == 1;
}

}  // namespace

bool PushRetransmitBuffer::Reserve(uint64_t step, size_t bytes) {
  MutexLock lock(mu_);
  const bool alone = steps_.empty() || steps_.begin()->first >= step;
  if (!alone && bytes_ + bytes > bytes_max_) return false;
  bytes_ += bytes;
  ++steps_[step];
  return true;
}

PushRetransmitBuffer::Floats PushRetransmitBuffer::Copy(const codec::CodedSlice& slice) {
  const auto numel = static_cast<size_t>(slice.desc.shape.numel());
  Floats copy;
  {
    MutexLock lock(mu_);
    // Takes the oldest buffer of the same size, because the sizes recur in the same order in every
    // step.
    const auto it = std::find_if(spare_.begin(), spare_.end(), [numel](const Floats& f) {
      return f.use_count() == 1 && f->size() == numel;
    });
    if (it != spare_.end()) {
      copy = std::move(*it);
      spare_.erase(it);
      spare_bytes_ -= slice.desc.bytes();
    }
  }
  if (copy == nullptr) copy = std::make_shared<std::vector<float>>(numel);
  std::memcpy(copy->data(), slice.data, numel * sizeof(float));
  return copy;
}

PushPart PushRetransmitBuffer::Keep(KeptPush push) {
  for (codec::CodedSlice& s : push.part.slices) {
    if (!IsDense(s)) continue;
    Floats copy = Copy(s);
    s.data = copy->data();
    s.keep = std::move(copy);
  }
  const auto kept = std::make_shared<KeptPush>(std::move(push));
  MutexLock lock(mu_);
  TD_REQUIRE(steps_.contains(kept->part.header.step));
  const auto [it, is_new] =
      pushes_[kept->part.server].try_emplace(kept->part.header.sequence, kept);
  TD_REQUIRE(is_new);
  return kept->part;
}

void PushRetransmitBuffer::Remove(size_t server, uint64_t sequence) {
  auto& pushes = pushes_[server];
  const auto it = pushes.find(sequence);
  if (it == pushes.end()) return;
  KeptPush& push = *it->second;
  TD_REQUIRE(bytes_ >= push.part.bytes);
  bytes_ -= push.part.bytes;
  const auto step = steps_.find(push.part.header.step);
  TD_REQUIRE(step != steps_.end());
  if (--step->second == 0) steps_.erase(step);
  for (const codec::CodedSlice& s : push.part.slices) {
    const size_t bytes = s.desc.bytes();
    if (!IsDense(s) || spare_.size() >= kSpareMax) continue;
    if (bytes_ + spare_bytes_ + bytes > bytes_max_) continue;
    spare_.push_back(
        std::static_pointer_cast<std::vector<float>>(std::const_pointer_cast<void>(s.keep)));
    spare_bytes_ += bytes;
  }
  pushes.erase(it);
}

void PushRetransmitBuffer::Answered(size_t server, uint64_t sequence, uint64_t number) {
  MutexLock lock(mu_);
  Number(server, sequence, number);
  // Resolves the doubts that arose before this push was sent: the server accepted each of these
  // doubtful pushes before this push, or never. The number of this push is therefore enough for
  // them.
  std::vector<Doubt>& doubts = doubts_[server];
  const auto before = std::stable_partition(doubts.begin(), doubts.end(),
                                            [&](const Doubt& d) { return d.newest >= sequence; });
  const std::vector<Doubt> known(before, doubts.end());
  doubts.erase(before, doubts.end());
  for (const Doubt& d : known) Number(server, d.sequence, number);
}

void PushRetransmitBuffer::Number(size_t server, uint64_t sequence, uint64_t number) {
  auto& pushes = pushes_[server];
  const auto it = pushes.find(sequence);
  if (it == pushes.end()) return;
  it->second->number = std::min(it->second->number, number);
  if (it->second->number <= checkpointed_[server]) Remove(server, sequence);
}

void PushRetransmitBuffer::Doubtful(size_t server, uint64_t sequence) {
  MutexLock lock(mu_);
  const auto& pushes = pushes_[server];
  if (pushes.contains(sequence)) {
    doubts_[server].push_back({sequence, pushes.rbegin()->first});
  }
}

void PushRetransmitBuffer::Drop(size_t server, uint64_t sequence) {
  MutexLock lock(mu_);
  Remove(server, sequence);
}

void PushRetransmitBuffer::Checkpointed(size_t server, uint64_t number) {
  MutexLock lock(mu_);
  uint64_t& last = checkpointed_[server];
  if (number <= last) return;
  last = number;
  std::vector<uint64_t> sequences;
  for (const auto& [sequence, push] : pushes_[server]) {
    if (push->number <= number) sequences.push_back(sequence);
  }
  for (const uint64_t sequence : sequences) Remove(server, sequence);
}

std::vector<std::shared_ptr<const KeptPush>> PushRetransmitBuffer::Of(size_t server) const {
  MutexLock lock(mu_);
  std::vector<std::shared_ptr<const KeptPush>> all;
  const auto pushes = pushes_.find(server);
  if (pushes == pushes_.end()) return all;
  for (const auto& [sequence, push] : pushes->second) all.push_back(push);
  return all;
}

std::map<size_t, uint64_t> PushRetransmitBuffer::Oldest(uint64_t before_step) const {
  MutexLock lock(mu_);
  std::map<size_t, uint64_t> oldest;
  for (const auto& [server, pushes] : pushes_) {
    for (const auto& [sequence, push] : pushes) {
      if (push->number == UINT64_MAX || push->part.header.step >= before_step) continue;
      const auto [it, first] = oldest.try_emplace(server, push->number);
      if (!first) it->second = std::min(it->second, push->number);
    }
  }
  return oldest;
}

size_t PushRetransmitBuffer::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

}  // namespace tandem::ps
