#include "common/tables/update_policy.h"

namespace tandem {

const char* Name(UpdatePolicy policy) { return policy == UpdatePolicy::kSync ? "sync" : "a_sync"; }

const char* Name(NonfinitePolicy policy) {
  switch (policy) {
    case NonfinitePolicy::kReject:
      return "reject";
    case NonfinitePolicy::kSkip:
      return "skip";
    case NonfinitePolicy::kApply:
      return "apply";
  }
  return "unknown";
}

}  // namespace tandem
