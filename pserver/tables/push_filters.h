// Filters that a push passes after its acceptance and before its effect: the check for NaN and
// infinity, and delay compensation.
#pragma once

#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/tables/shard_params.h"

namespace tandem::pserver {

// Checks the f32 values of a push. INVALID_ARGUMENT: a value is NaN or infinite (the message names
// the first such value).
Status CheckFinite(const PushHead& head, const PushTicket& ticket);

// Returns the empty push that replaces a skipped push and still counts as a push. Also changes the
// ticket accordingly. Sync: the empty push has zeros for slices and no rows for tables, because a
// step needs every slice and table from every trainer. REQUIRES: in sync mode, the ticket owns its
// values.
PushHead EmptyPush(const PushHead& head, UpdatePolicy mode, const ShardParams& params,
                   PushTicket& ticket);

// Corrects gradients of slices that were computed from older parameters. The correction is a Taylor
// expansion of first order to the current parameters, in which g * g approximates the second
// derivative (Zheng et al., ICML 2017, eq. 10).
Status CompensateDelay(const PushHead& head, float compensation, ShardParams& params,
                       PushTicket& ticket);

}  // namespace tandem::pserver
