// Converts between the update policies and their enums in proto/pserver.proto, for clients and
// servers.
#pragma once

#include "common/base/status.h"
#include "common/tables/update_policy.h"

namespace tandem {

enum UpdateMode : int;
enum NonfiniteGradients : int;

// INVALID_ARGUMENT: a value that no server has.
StatusOr<UpdatePolicy> FromProto(UpdateMode mode);
UpdateMode ToProto(UpdatePolicy policy);
StatusOr<NonfinitePolicy> FromProto(NonfiniteGradients policy);
NonfiniteGradients ToProto(NonfinitePolicy policy);

}  // namespace tandem
