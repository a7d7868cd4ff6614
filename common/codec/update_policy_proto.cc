#include "common/codec/update_policy_proto.h"

#include "proto/pserver.pb.h"

namespace tandem {

StatusOr<UpdatePolicy> FromProto(UpdateMode mode) {
  switch (mode) {
    case UPDATE_MODE_SYNC:
      return UpdatePolicy::kSync;
    case UPDATE_MODE_A_SYNC:
      return UpdatePolicy::kASync;
    case UPDATE_MODE_HALF_ASYNC:
    case UPDATE_MODE_GEO:
      return InvalidArgument("mode %s is not a mode of a server, expected sync or a_sync",
                             UpdateMode_Name(mode));
    default:
      return InvalidArgument("update mode %d is unknown, expected sync or a_sync",
                             static_cast<int>(mode));
  }
}

UpdateMode ToProto(UpdatePolicy policy) {
  return policy == UpdatePolicy::kSync ? UPDATE_MODE_SYNC : UPDATE_MODE_A_SYNC;
}

StatusOr<NonfinitePolicy> FromProto(NonfiniteGradients policy) {
  switch (policy) {
    case NONFINITE_REJECT:
      return NonfinitePolicy::kReject;
    case NONFINITE_SKIP:
      return NonfinitePolicy::kSkip;
    case NONFINITE_APPLY:
      return NonfinitePolicy::kApply;
    default:
      return InvalidArgument(
          "nonfinite gradient policy %d is unknown, expected reject, skip or apply",
          static_cast<int>(policy));
  }
}

NonfiniteGradients ToProto(NonfinitePolicy policy) {
  switch (policy) {
    case NonfinitePolicy::kReject:
      return NONFINITE_REJECT;
    case NonfinitePolicy::kSkip:
      return NONFINITE_SKIP;
    case NonfinitePolicy::kApply:
      return NONFINITE_APPLY;
  }
  return NONFINITE_REJECT;
}

}  // namespace tandem
