// Messages of proto/pserver.proto <-> the shard's own types.
#pragma once

#include <algorithm>

#include "common/base/status.h"
#include "pserver/state/shard_types.h"

namespace tandem {

class ConfigureRequest;
class SliceDef;
class SliceTensor;
class SlotTensor;
class TableRows;

// INVALID_ARGUMENT for unknown enumerators, bad shapes, and modes that are not built yet.
StatusOr<ShardConfig> FromProto(const ConfigureRequest& request);
void ToProto(const ShardConfig& config, ConfigureRequest* request);

StatusOr<SliceSpec> FromProto(const SliceDef& def);
void ToProto(const SliceSpec& spec, SliceDef* def);

// Of any request that says who calls.
template <typename Request>
Caller CallerOf(const Request& r) {
  return {r.job(), static_cast<int>(std::min<uint32_t>(r.trainer_id(), INT32_MAX)),
          r.incarnation()};
}

// Copies the values. INVALID_ARGUMENT unless the tensor is f32 [n] with n elements in content;
// DATA_LOSS when a checksum does not match.
StatusOr<SliceValues> FromProto(const SliceTensor& slice);
StatusOr<SlotValues> FromProto(const SlotTensor& slot);
void ToProto(const SlotValues& slot, SlotTensor* out);
void ToProto(const SliceValues& slice, SliceTensor* out);
StatusOr<RowValues> FromProto(const TableRows& rows);
void ToProto(const RowValues& rows, TableRows* out);

}  // namespace tandem
