// What a client keeps of its pushes for servers that log their order alone (durability replayable):
// until a checkpoint holds them, their server may ask for them again. Includes the tensor codec:
// for .cc files of this folder only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/codec/tensor_codec.h"

namespace tandem {

// A push to one server, in as many messages as its size asks for.
struct PushPart {
  size_t server;
  std::vector<CodedSlice> slices;
  size_t bytes = 0;
  // PushRequest's of proto/pserver.proto.
  uint64_t sequence = 0;
  uint64_t generation = 0;
  uint32_t origin_server = 0;
  uint64_t origin_sequence = 0;
  std::vector<uint64_t> sent = {}, ended = {};
};

struct KeptPush {
  PushPart part;  // whose memory is kept
  uint64_t step = 0;
  float learning_rate = 0;
  uint64_t number = UINT64_MAX;  // PushReply.log_number; so far nobody knows
};

// Thread-safe.
class PushRetransmitBuffer {
 public:
  explicit PushRetransmitBuffer(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Takes room for a push of that many bytes. False when there is not enough; but the parts of one
  // step are kept whatever they take, for no checkpoint may hold some of them alone.
  bool Reserve(uint64_t step, size_t bytes);
  // REQUIRES: Reserve. Dense values are copied, rows are shared; gives the part with them.
  PushPart Keep(KeptPush push);
  void Answered(size_t server, uint64_t sequence, uint64_t number);
  // Nobody knows whether its server took it. It is kept as long as one that is sent later.
  void Doubtful(size_t server, uint64_t sequence);
  // Its server never took it.
  void Drop(size_t server, uint64_t sequence);
  void Checkpointed(size_t server, uint64_t number);
  // All for this server, in their order.
  std::vector<std::shared_ptr<const KeptPush>> Of(size_t server) const;
  // By server a number from which on a checkpoint gives back room: of its oldest push of a step
  // before this one.
  std::map<size_t, uint64_t> Oldest(uint64_t before_step) const;
  size_t bytes() const;

 private:
  using Floats = std::shared_ptr<std::vector<float>>;
  Floats Copy(const CodedSlice& slice);
  void Remove(size_t server, uint64_t sequence) TD_REQUIRES(mu_);
  void Number(size_t server, uint64_t sequence, uint64_t number) TD_REQUIRES(mu_);

  const size_t bytes_max_;
  mutable Mutex mu_;
  size_t bytes_ TD_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, size_t> steps_ TD_GUARDED_BY(mu_);         // pushes that are kept of each
  std::map<size_t, uint64_t> checkpointed_ TD_GUARDED_BY(mu_);  // by server
  struct Doubt {
    uint64_t sequence, newest;  // that was kept when the doubt came
  };
  std::map<size_t, std::vector<Doubt>> doubts_ TD_GUARDED_BY(mu_);  // by server
  // By server, then by sequence.
  std::map<size_t, std::map<uint64_t, std::shared_ptr<KeptPush>>> pushes_ TD_GUARDED_BY(mu_);
  // Memory that was in use before: new memory costs more than the copy.
  std::vector<Floats> spare_ TD_GUARDED_BY(mu_);
  size_t spare_bytes_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem
