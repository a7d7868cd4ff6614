// Push and Pull of proto/pserver.proto, from the bytes of a request to those of its answer,
// whatever carries them: gRPC (service.cc) or a lane (pserver.cc).
#pragma once

#include <functional>

#include "common/codec/tensor_codec.h"
#include "pserver/shard/deadlines.h"
#include "pserver/shard/shard.h"

namespace tandem {

class PullRequest;

// Whether a PullRequest is about rows and no ranges, from the beginning of its bytes: for who has
// to choose a thread. Any answer is a right one.
bool AsksForRowsAlone(Fragments request);

// Thread-safe.
class TensorCalls {
 public:
  // Called exactly once: at once, or when others have come or a deadline has passed.
  using Answer = std::function<void(const Status&, EncodedMessage)>;

  // Both must outlive this, and what it still has to answer.
  TensorCalls(uint64_t server_incarnation, Shard& shard, Deadlines& deadlines)
      : server_incarnation_(server_incarnation), shard_(shard), deadlines_(deadlines) {}

  // `request` is not used any more when these return. It may change meanwhile (a lane's client
  // writes it): then other values are taken, and nothing worse.
  // `tag`: of the call, for Shard::Leave.
  void Push(Fragments request, Answer answer, const void* tag = nullptr);
  void Pull(Fragments request, Answer answer, const void* tag = nullptr);

 private:
  StatusOr<PushOutcome> TakePush(Fragments message, const CodedPush& push);
  // Calls `done` with an answer, at once or when the version is there.
  void StartPull(const Caller& caller, const PullRequest& pull, Shard::Done<PullResult> done,
                 const void* tag);

  const uint64_t server_incarnation_;
  Shard& shard_;
  Deadlines& deadlines_;
};

}  // namespace tandem
