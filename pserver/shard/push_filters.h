// Filters between the acceptance of a push and its effect: NaN and infinity, and the compensation
// of delay.
#pragma once

#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/tables/shard_params.h"

namespace tandem::pserver {

// INVALID_ARGUMENT: a value of the push is not finite (the message names the first one).
Status CheckFinite(const PushHead& head, const PushTicket& ticket);

// Returns the empty form of a skipped push, which still counts, and empties the ticket. Sync: zeros
// for slices and no rows for tables, because a step needs every part from every trainer. REQUIRES:
// (sync) the ticket owns its values.
PushHead EmptyPush(const PushHead& head, UpdatePolicy mode, const ShardParams& params,
                   PushTicket& ticket);

// Corrects gradients that were computed from older parameters to the current ones, to first order.
// g * g approximates the second derivative (Zheng et al., ICML 2017, eq. 10).
Status CompensateDelay(const PushHead& head, float compensation, ShardParams& params,
                       PushTicket& ticket);

}  // namespace tandem::pserver
