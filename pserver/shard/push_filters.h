// Filters between the acceptance of a push and its effect: NaN and infinity, and delay
// compensation.
#pragma once

#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/tables/shard_params.h"

namespace tandem::pserver {

// INVALID_ARGUMENT: a value of the push is not finite (the message names the first one).
Status CheckFinite(const PushHead& head, const PushTicket& ticket);

// Returns the empty push that replaces a skipped push. The empty push counts as a push. Also
// empties the ticket. Sync: the empty push has zeros for slices and no rows for tables, because a
// step needs every part from every trainer. REQUIRES: in sync mode, the ticket owns its values.
PushHead EmptyPush(const PushHead& head, UpdatePolicy mode, const ShardParams& params,
                   PushTicket& ticket);

// Corrects gradients that were computed from older parameters. The correction to the current
// parameters is of first order: g * g approximates the second derivative (Zheng et al., ICML 2017,
// eq. 10).
Status CompensateDelay(const PushHead& head, float compensation, ShardParams& params,
                       PushTicket& ticket);

}  // namespace tandem::pserver
