// A push on the server that receives it: its head, its memory and its outcome.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/tables/push_header.h"
#include "common/tensor/types.h"
#include "pserver/state/push_bytes.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/update_time.h"

namespace tandem::pserver {

// A push without its values: its header and its slices. The gradient of a table is two slices with
// its name: the row ids, i64 [n], ascending, then the values, f32 [n, dim].
struct PushHead : PushHeader {
  struct Slice {
    std::string variable;
    int64_t offset = 0;
    TensorDesc desc;
  };
  std::vector<Slice> slices;
};
enum class PushVerdict : uint8_t {
  kNew,        // to be applied
  kDuplicate,  // accepted before; its values are not needed
  kReplayed,   // accepted before; its values complete a change that the shard replays
};
// Destinations of the values of an admitted push, in the order of PushHead::slices.
struct PushTicket {
  PushVerdict verdict = PushVerdict::kNew;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  std::vector<int> slices;  // indices as in ShardParams; both parts of a table have the same index
  std::vector<PushBytes> buffers;
  bool skipped = false;  // NonfinitePolicy::kSkip applied
  bool duplicate() const { return verdict == PushVerdict::kDuplicate; }
  bool replayed() const { return verdict == PushVerdict::kReplayed; }
};

struct PushOutcome {
  uint64_t version = 0;
  bool duplicate = false;
  UpdateTime update;  // the newest one
  // Fields of PushReply (proto/pserver.proto).
  uint64_t log_number = 0, kept_number = 0;
};

}  // namespace tandem::pserver
