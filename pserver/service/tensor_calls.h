// Push and Pull of proto/pserver.proto, from the bytes of a request to the bytes of its reply, with
// any transport: gRPC (service.cc) or shm RPC (pserver.cc).
#pragma once

#include <functional>

#include "common/codec/tensor_codec.h"
#include "pserver/shard/deadlines.h"
#include "pserver/shard/shard.h"

namespace tandem {
class PullRequest;
}  // namespace tandem

namespace tandem::pserver {

// Whether a PullRequest has rows and no ranges, judged by its first bytes. Used to choose a thread;
// a wrong result is harmless.
bool AsksForRowsAlone(codec::Fragments request);

// Thread-safe.
class TensorCalls {
 public:
  // Called exactly once: immediately, or after other trainers have called or a deadline has passed.
  using Answer = std::function<void(const Status&, codec::EncodedMessage)>;

  // Both must outlive this and all pending replies.
  TensorCalls(uint64_t server_incarnation, Shard& shard, Deadlines& deadlines)
      : server_incarnation_(server_incarnation), shard_(shard), deadlines_(deadlines) {}

  // `request` is not used after these return. Its bytes may change meanwhile (shared memory of an
  // shm RPC client); this only changes the values used. `tag`: identifies the call for
  // Shard::Leave.
  void Push(codec::Fragments request, Answer answer, const void* tag = nullptr);
  void Pull(codec::Fragments request, Answer answer, const void* tag = nullptr);

 private:
  StatusOr<PushOutcome> TakePush(codec::Fragments message, const codec::CodedPush& push);
  // Calls `done` with a result, immediately or when the version is available.
  void StartPull(const CallerId& caller, const PullRequest& pull, Shard::Done<PullResult> done,
                 const void* tag);

  const uint64_t server_incarnation_;
  Shard& shard_;
  Deadlines& deadlines_;
};

}  // namespace tandem::pserver
