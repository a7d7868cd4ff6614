// The attribute `op_device`, which says where an operator runs. Its name and form are those of
// Paddle's fluid.device_guard. The values "gpu:1" and "cpu:1" name stage 1 of a pipeline; the
// values "gpu" and "cpu" name no stage. All these values also name a kind of device, by which
// heter_worker_device_guard selects operators. Every operator may have the attribute; programs that
// are not partitioned ignore it.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "kernels/ops/core/op.h"

namespace tandem::graph {

inline constexpr const char* kOpDevice = "op_device";
// Largest number of pipeline stages that a program can name.
inline constexpr int kSectionsMax = 4096;

// Returns the pipeline stage in the attribute's value. -1: the value names a device without a
// stage. INVALID_ARGUMENT: the value has another form.
StatusOr<int> SectionOf(const ops::Attr& device);
// Returns the pipeline stage of the operator. -1: the operator names no stage. REQUIRES: AppendOp
// has checked the attribute.
int SectionOf(const ops::Op& op);
ops::Attr DeviceOf(int section);

// Returns "cpu", "gpu", or "" if the operator names no device. The view points into the attribute.
// REQUIRES: AppendOp has checked the attribute.
std::string_view DeviceKindOf(const ops::Op& op);

}  // namespace tandem::graph
