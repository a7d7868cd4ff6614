// How the servers of a job handle pushes. All trainers and servers of a job agree on it.
#pragma once

#include <cstdint>

namespace tandem {

// Time at which a push changes the parameters.
enum class UpdatePolicy : uint8_t {
  kSync,  // once per step, after every trainer has pushed
  kASync  // when the push arrives
};
const char* Name(UpdatePolicy policy);  // "sync", "a_sync"

// Handling of a push with NaN or infinity.
enum class NonfinitePolicy : uint8_t {
  kReject,  // INVALID_ARGUMENT; the message names the first value
  kSkip,    // accepted without effect: in sync mode its gradients are zeros
  kApply    // no check
};
const char* Name(NonfinitePolicy policy);  // "reject", "skip", "apply"

}  // namespace tandem
