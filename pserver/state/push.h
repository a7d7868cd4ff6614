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
// the name of the table: first the row ids (i64 [n], ascending), then the values (f32 [n, width],
// where width is SparseTable::push_width).
struct PushHead : PushHeader {
  struct Slice {
    std::string variable;
    int64_t offset = 0;
    TensorDesc desc;
  };
  std::vector<Slice> slices;
};
enum class PushVerdict : uint8_t {
  kNew,        // the push was not accepted before
  kDuplicate,  // the push was accepted before, and its values are not needed
  // The push was accepted before, and the shard needs its values to replay a logged change.
  kReplayed,
};
// Memory for the values of an admitted push, in the order of PushHead::slices.
struct PushTicket {
  PushVerdict verdict = PushVerdict::kNew;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  // For each element of PushHead::slices: the index of its slice or table in ShardParams. The row
  // ids and the values of a table have the same index.
  std::vector<int> slices;
  std::vector<PushBytes> buffers;
  bool skipped = false;  // true: the push has no effect, because of NonfinitePolicy::kSkip
  bool duplicate() const { return verdict == PushVerdict::kDuplicate; }
  bool replayed() const { return verdict == PushVerdict::kReplayed; }
};

struct PushOutcome {
  uint64_t version = 0;
  bool duplicate = false;
  UpdateTime update;  // begin and end of the newest update
  // Log numbers, as in PushReply (proto/pserver.proto).
  uint64_t log_number = 0, kept_number = 0;
};

}  // namespace tandem::pserver
