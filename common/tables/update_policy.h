// How the servers of a job handle pushes. All servers and trainers of a job must use equal
// policies.
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
  kSkip,    // accepted without effect; in sync mode the gradients of the push count as zeros
  kApply    // no check
};
const char* Name(NonfinitePolicy policy);  // "reject", "skip", "apply"

}  // namespace tandem
