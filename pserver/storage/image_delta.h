// Deltas of images: what of a shard's tables changed since a whole image, and how both make a whole
// one again.
#pragma once

#include "pserver/state/shard_types.h"

namespace tandem {

// Adds the rows of `base` to the tables of `delta` that are partial. What happened to them between
// the two versions without a gradient, fading and removal, happens here: the rules depend on
// versions alone, and who had a later gradient is never removed before who had none
// (RowAccessor::FadeAndStay). REQUIRES: both of the same configuration, each with ascending ids in
// a bucket.
void MergeDelta(const ShardSnapshot& base, ShardSnapshot& delta);

}  // namespace tandem
