// Delta snapshots have the changes of a shard's tables since a full snapshot. A delta and its base
// can be merged into a full snapshot.
#pragma once

#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Adds the rows of `base` to the partial tables of `delta`. Applies the decay and removal that
// happened to these rows between the two versions. The rules depend only on versions, and a row
// with a later gradient is never removed before a row without one (RowAccessor::FadeAndStay).
// REQUIRES: both snapshots have the same configuration, and ascending ids in each bucket.
void MergeDelta(const ShardSnapshot& base, ShardSnapshot& delta);

}  // namespace tandem::pserver
