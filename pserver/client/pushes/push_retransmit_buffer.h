// Keeps a client's pushes to servers that log only the order of pushes (durability=replayable). A
// server may request a push again until a checkpoint contains it. Includes the tensor codec: only
// for .cc files of this directory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/pushes/push_part.h"

namespace tandem::ps {

struct KeptPush {
  PushPart part;  // values are in memory of the buffer
  // Log number of the push (PushReply.log_number); UINT64_MAX: not known yet.
  uint64_t number = UINT64_MAX;
};

// Stores pushes until a checkpoint contains them. Thread-safe.
class PushRetransmitBuffer {
 public:
  explicit PushRetransmitBuffer(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Reserves room for a push of `bytes` bytes. Returns false if there is not enough room. If the
  // buffer has no push of an earlier step, it accepts the push regardless of its size, because no
  // checkpoint contains only some parts of a step.
  bool Reserve(uint64_t step, size_t bytes);
  // Copies the dense values, and shares the memory of rows. Returns the part with the copied
  // memory. REQUIRES: Reserve returned true for this step.
  PushPart Keep(KeptPush push);
  void Answered(size_t server, uint64_t sequence, uint64_t number);
  // Notes that it is unknown whether the server accepted the push. The buffer keeps this push as
  // long as it keeps the next push that the server accepts.
  void Doubtful(size_t server, uint64_t sequence);
  // Removes a push that the server never accepted.
  void Drop(size_t server, uint64_t sequence);
  void Checkpointed(size_t server, uint64_t number);
  // Returns all pushes kept for this server, in the order of their numbers.
  std::vector<std::shared_ptr<const KeptPush>> Of(size_t server) const;
  // Returns, by server, the log number of the oldest kept push of a step before `before_step`. A
  // checkpoint that contains this number frees room in the buffer.
  std::map<size_t, uint64_t> Oldest(uint64_t before_step) const;
  size_t bytes() const;

 private:
  using Floats = std::shared_ptr<std::vector<float>>;
  Floats Copy(const codec::CodedSlice& slice);
  void Remove(size_t server, uint64_t sequence) TD_REQUIRES(mu_);
  void Number(size_t server, uint64_t sequence, uint64_t number) TD_REQUIRES(mu_);

  const size_t bytes_max_;
  mutable Mutex mu_;
  size_t bytes_ TD_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, size_t> steps_ TD_GUARDED_BY(mu_);  // by step: number of kept pushes
  // By server: log number of its newest checkpoint.
  std::map<size_t, uint64_t> checkpointed_ TD_GUARDED_BY(mu_);
  struct Doubt {
    // Sequence numbers of the doubtful push, and of the newest kept push at the time of the doubt.
    uint64_t sequence, newest;
  };
  // By server: its doubtful pushes.
  std::map<size_t, std::vector<Doubt>> doubts_ TD_GUARDED_BY(mu_);
  // By server, then by sequence number: the kept push.
  std::map<size_t, std::map<uint64_t, std::shared_ptr<KeptPush>>> pushes_ TD_GUARDED_BY(mu_);
  // Unused memory of removed pushes: to allocate new memory costs more than to copy the values.
  std::vector<Floats> spare_ TD_GUARDED_BY(mu_);
  size_t spare_bytes_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::ps
