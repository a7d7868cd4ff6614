// Makes the status page of a pserver.
#pragma once

#include "common/http/status_page.h"
#include "pserver/state/shard_info.h"

namespace tandem::pserver {

// Returns the page. `storage`: OK, or the reason why the server rejects pushes or writes no
// checkpoints. The page says that the server is ready if the shard has its initial values and
// `storage` is OK.
http::StatusDocument StatusOf(const ShardInfo& info, int index, const Status& storage = {});

}  // namespace tandem::pserver
