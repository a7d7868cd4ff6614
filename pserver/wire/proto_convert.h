// Converts between messages of proto/pserver.proto and the types of the shard.
#pragma once

#include <algorithm>

#include "common/base/status.h"
#include "common/tables/push_header.h"
#include "pserver/state/row_checks.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/values.h"

namespace tandem {
class CompleteRequest;
class ConfigureRequest;
class RowChecksDef;
class SliceDef;
class SliceTensor;
class SlotTensor;
class TableRows;
}  // namespace tandem

namespace tandem::pserver {

// Converts a configuration. INVALID_ARGUMENT: an enumerator is unknown, a shape is invalid, or a
// mode is not supported.
StatusOr<ShardConfig> FromProto(const ConfigureRequest& request);
void ToProto(const ShardConfig& config, ConfigureRequest* request);

StatusOr<SliceSpec> FromProto(const SliceDef& def);
void ToProto(const SliceSpec& spec, SliceDef* def);

// Returns the caller of a request. Request: a message with the fields job, trainer_id and
// incarnation.
template <typename Request>
CallerId CallerOf(const Request& r) {
  return {r.job(), static_cast<int>(std::min<uint32_t>(r.trainer_id(), INT32_MAX)),
          r.incarnation()};
}

SentNumbers NumbersOf(const CompleteRequest& r);

// Converts values of slices and slots by copying them. INVALID_ARGUMENT: the tensor is not f32 [n]
// with n elements in `content`. DATA_LOSS: a checksum does not match.
StatusOr<SliceValues> FromProto(const SliceTensor& slice);
StatusOr<SlotValues> FromProto(const SlotTensor& slot);
void ToProto(const SlotValues& slot, SlotTensor* out);
void ToProto(const SliceValues& slice, SliceTensor* out);
StatusOr<RowValues> FromProto(const TableRows& rows);
void ToProto(const RowValues& rows, TableRows* out);

RowChecks FromProto(const RowChecksDef& checks);
void ToProto(const RowChecks& checks, RowChecksDef* out);  // does not set `variable`

}  // namespace tandem::pserver
