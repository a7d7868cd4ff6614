// What a pserver shows of itself on its status page.
#pragma once

#include "common/http/status_page.h"
#include "pserver/state/shard_types.h"

namespace tandem {

// Ready once the shard has its first values, as long as `storage` is OK: else it says why no pushes
// are taken, or no checkpoints written.
StatusDocument StatusOf(const ShardInfo& info, int index, const Status& storage = {});

}  // namespace tandem
