// Makes the status page of a pserver.
#pragma once

#include "common/http/status_page.h"
#include "pserver/state/shard_info.h"

namespace tandem::pserver {

// The server is ready if the shard has its initial values and `storage` is OK. If `storage` is not
// OK, it is the reason why pushes are rejected or checkpoints are not written.
http::StatusDocument StatusOf(const ShardInfo& info, int index, const Status& storage = {});

}  // namespace tandem::pserver
