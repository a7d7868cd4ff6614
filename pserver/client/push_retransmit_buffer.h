// Keeps a client's pushes to servers that log only the order of pushes (durability=replayable).
// Until a checkpoint holds a push, its server may request it again. Includes the tensor codec: only
// for .cc files of this directory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/push_part.h"

namespace tandem::ps {

struct KeptPush {
  PushPart part;                 // the buffer keeps its memory
  uint64_t number = UINT64_MAX;  // PushReply.log_number; UINT64_MAX: not known yet
};

// Stores pushes until a checkpoint holds them. Thread-safe.
class PushRetransmitBuffer {
 public:
  explicit PushRetransmitBuffer(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Reserves room for a push of `bytes`. Returns false if there is not enough. All parts of one
  // step are kept regardless of their size, because no checkpoint may hold only some of them.
  bool Reserve(uint64_t step, size_t bytes);
  // REQUIRES: Reserve for this step. Copies dense values and shares rows. Returns the part with
  // this memory.
  PushPart Keep(KeptPush push);
  void Answered(size_t server, uint64_t sequence, uint64_t number);
  // It is unknown whether the server accepted the push. The buffer keeps the push as long as a
  // later one.
  void Doubtful(size_t server, uint64_t sequence);
  // The server never accepted the push.
  void Drop(size_t server, uint64_t sequence);
  void Checkpointed(size_t server, uint64_t number);
  // All pushes kept for this server, in order.
  std::vector<std::shared_ptr<const KeptPush>> Of(size_t server) const;
  // By server, a log number: a checkpoint from this number on frees room. It is that of the
  // server's oldest push of a step before `before_step`.
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
  std::map<uint64_t, size_t> steps_ TD_GUARDED_BY(mu_);         // kept pushes by step
  std::map<size_t, uint64_t> checkpointed_ TD_GUARDED_BY(mu_);  // by server
  struct Doubt {
    uint64_t sequence, newest;  // newest kept push when the doubt arose
  };
  std::map<size_t, std::vector<Doubt>> doubts_ TD_GUARDED_BY(mu_);  // by server
  // By server, then by sequence.
  std::map<size_t, std::map<uint64_t, std::shared_ptr<KeptPush>>> pushes_ TD_GUARDED_BY(mu_);
  // Memory for reuse: allocating new memory costs more than the copy.
  std::vector<Floats> spare_ TD_GUARDED_BY(mu_);
  size_t spare_bytes_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::ps
