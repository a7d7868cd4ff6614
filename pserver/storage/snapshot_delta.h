// Delta snapshots have the changes of a shard's tables since a full snapshot. A delta and its base
// can be merged into a full snapshot.
#pragma once

#include "common/base/status.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Adds the rows of `base` that did not change to the partial tables of `delta`. Repeats for these
// rows the checks (row_checks.h) that the server made between the two versions. A row that had a
// later gradient and was then removed is also removed here, because the rules never remove a row
// with higher counts and a later use before another row (RowAccessor::FadeAndStay). DATA_LOSS:
// `delta` lacks a check that the server made after `base`. REQUIRES: both snapshots have the same
// configuration, and ascending ids in each bucket.
Status MergeDelta(const ShardSnapshot& base, ShardSnapshot& delta);

}  // namespace tandem::pserver
