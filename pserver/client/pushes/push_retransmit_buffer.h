// Keeps a client's pushes to servers that log only the order of pushes (durability=replayable).
// Until a checkpoint contains a push, a server may request the push again. Includes the tensor
// codec: only for .cc files of this directory.
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
  PushPart part;  // the values are in memory of the buffer
  // Log number of the push (PushReply.log_number); UINT64_MAX: unknown.
  uint64_t number = UINT64_MAX;
};

// Stores pushes until a checkpoint contains them. Thread-safe.
class PushRetransmitBuffer {
 public:
  explicit PushRetransmitBuffer(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Reserves room for a push of `bytes` bytes. Returns false if there is not enough room. If the
  // buffer has no push of an earlier step, a push of any size gets room, because no checkpoint
  // contains only some parts of a step.
  bool Reserve(uint64_t step, size_t bytes);
  // Stores the push: copies the dense values, and shares the ownership of the rows with the
  // caller. Returns the push as a part of a step; its values are in memory of the buffer.
  // REQUIRES: Reserve returned true for this step.
  PushPart Keep(KeptPush push);
  void Answered(size_t server, uint64_t sequence, uint64_t number);
  // Records that the client does not know whether the server accepted the push. The buffer keeps
  // the push as long as it keeps the next push that the server accepts.
  void Doubtful(size_t server, uint64_t sequence);
  // Removes a push that the server rejected.
  void Drop(size_t server, uint64_t sequence);
  void Checkpointed(size_t server, uint64_t number);
  // Returns all pushes that the buffer keeps for this server, by ascending sequence numbers.
  std::vector<std::shared_ptr<const KeptPush>> Of(size_t server) const;
  // Returns, by server, the lowest known log number of the kept pushes of steps before
  // `before_step`. A checkpoint up to this number frees room in the buffer.
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
  // By server: log number up to which the newest checkpoint contains the log.
  std::map<size_t, uint64_t> checkpointed_ TD_GUARDED_BY(mu_);
  struct Doubt {
    // `sequence`: the doubtful push. `newest`: the newest kept push at the time of the doubt.
    uint64_t sequence, newest;
  };
  // By server: its doubtful pushes.
  std::map<size_t, std::vector<Doubt>> doubts_ TD_GUARDED_BY(mu_);
  // By server, then by sequence number: the kept push.
  std::map<size_t, std::map<uint64_t, std::shared_ptr<KeptPush>>> pushes_ TD_GUARDED_BY(mu_);
  // Memory of removed pushes for reuse, because new memory costs more than the copy of the values.
  std::vector<Floats> spare_ TD_GUARDED_BY(mu_);
  size_t spare_bytes_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::ps
