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

// Returns whether a PullRequest has rows and no ranges. Reads only the first bytes of the request,
// so the result may be wrong. The result only selects a thread pool.
bool AsksForRowsAlone(codec::Fragments request);

// Handles pushes and pulls. Thread-safe.
class TensorCalls {
 public:
  // Receives the reply. Called exactly once: immediately, or later after calls of other trainers or
  // at a deadline.
  using Answer = std::function<void(const Status&, codec::EncodedMessage)>;

  // `shard` and `deadlines` must outlive this object and all pending replies. `observers_only`: the
  // server is a replica, which accepts only pulls of observers.
  TensorCalls(uint64_t server_incarnation, Shard& shard, Deadlines& deadlines,
              bool observers_only = false)
      : server_incarnation_(server_incarnation),
        shard_(shard),
        deadlines_(deadlines),
        observers_only_(observers_only) {}

  // Push and Pull do not use `request` after they have returned. While they run, the client may
  // change the bytes (shared memory of an shm RPC client). Such a change affects only the values of
  // the push. `tag` identifies the call for Shard::Leave.
  void Push(codec::Fragments request, Answer answer, const void* tag = nullptr);
  // `reader`: the caller may only read, so a pull of a trainer is rejected.
  void Pull(codec::Fragments request, Answer answer, const void* tag = nullptr,
            bool reader = false);

 private:
  StatusOr<PushOutcome> TakePush(codec::Fragments message, const codec::CodedPush& push);
  // Starts a pull. `done` receives the result immediately, or when the version is available.
  void StartPull(const CallerId& caller, const PullRequest& pull, Shard::Done<PullResult> done,
                 const void* tag);

  const uint64_t server_incarnation_;
  Shard& shard_;
  Deadlines& deadlines_;
  const bool observers_only_;
};

}  // namespace tandem::pserver
