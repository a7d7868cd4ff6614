// Converts between the update policies (common/tables/update_policy.h) and their enums in
// proto/pserver.proto, for clients and servers.
#pragma once

#include "common/base/status.h"
#include "common/tables/update_policy.h"

namespace tandem {

enum UpdateMode : int;
enum NonfiniteGradients : int;

// FromProto returns INVALID_ARGUMENT if servers of this version do not support the value of the
// enum.
StatusOr<UpdatePolicy> FromProto(UpdateMode mode);
UpdateMode ToProto(UpdatePolicy policy);
StatusOr<NonfinitePolicy> FromProto(NonfiniteGradients policy);
NonfiniteGradients ToProto(NonfinitePolicy policy);

}  // namespace tandem
