// Delta snapshots have the changes of a shard's tables since a full snapshot. A delta and its base
// can be merged into a full snapshot.
#pragma once

#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Adds the rows of `base` that did not change to the partial tables of `delta`. Repeats for these
// rows the decay and removal of the updates between the two versions. A row that had a later
// gradient and was then removed is also removed here, because the rules never remove a row with
// higher counts and a later use before another row (RowAccessor::FadeAndStay). REQUIRES: both
// snapshots have the same configuration, and ascending ids in each bucket.
void MergeDelta(const ShardSnapshot& base, ShardSnapshot& delta);

}  // namespace tandem::pserver
