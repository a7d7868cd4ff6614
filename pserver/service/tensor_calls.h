// Handlers of Push and Pull of proto/pserver.proto. A handler turns the bytes of a request into the
// bytes of its reply. The transport is gRPC (service.cc) or shm RPC (pserver.cc).
#pragma once

#include <functional>

#include "common/codec/tensor_codec.h"
#include "pserver/shard/shard.h"
#include "pserver/shard/trainers/deadlines.h"

namespace tandem {
class PullRequest;
}  // namespace tandem

namespace tandem::pserver {

// Returns whether a PullRequest has rows and no ranges, judged by its first bytes. The result
// selects a thread pool, so a wrong result is harmless.
bool AsksForRowsAlone(codec::Fragments request);

// Handles pushes and pulls. Thread-safe.
class TensorCalls {
 public:
  // Receives the reply. It is called exactly once: immediately, or after other trainers have called
  // or a deadline has passed.
  using Answer = std::function<void(const Status&, codec::EncodedMessage)>;

  // `shard` and `deadlines` must outlive this object and all pending replies.
  TensorCalls(uint64_t server_incarnation, Shard& shard, Deadlines& deadlines)
      : server_incarnation_(server_incarnation), shard_(shard), deadlines_(deadlines) {}

  // Push and Pull do not use `request` after they return. Its bytes may change meanwhile (shared
  // memory of an shm RPC client). Such a change affects only the values of the push. `tag`
  // identifies the call for Shard::Leave.
  void Push(codec::Fragments request, Answer answer, const void* tag = nullptr);
  void Pull(codec::Fragments request, Answer answer, const void* tag = nullptr);

 private:
  StatusOr<PushOutcome> TakePush(codec::Fragments message, const codec::CodedPush& push);
  // Starts a pull. Calls `done` with its result: immediately, or when the version is available.
  void StartPull(const CallerId& caller, const PullRequest& pull, Shard::Done<PullResult> done,
                 const void* tag);

  const uint64_t server_incarnation_;
  Shard& shard_;
  Deadlines& deadlines_;
};

}  // namespace tandem::pserver
