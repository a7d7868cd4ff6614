// The attribute `op_device`, which says where an operator runs. Name and form are those of Paddle's
// fluid.device_guard. "gpu:1" or "cpu:1" names stage 1 of a pipeline. "gpu" or "cpu", with or
// without a number, names the device that heter_worker_device_guard may select. Every operator may
// have the attribute. Programs that are not partitioned ignore it.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "kernels/ops/core/op.h"

namespace tandem {

inline constexpr const char* kOpDevice = "op_device";
// Largest number of pipeline stages that a program can name.
inline constexpr int kSectionsMax = 4096;

// Returns the pipeline stage that the attribute's value names; -1: the value names only a device.
// INVALID_ARGUMENT: any other value.
StatusOr<int> SectionOf(const Attr& device);
// Returns the pipeline stage of the operator; -1: the operator names none. REQUIRES: AppendOp has
// checked the attribute.
int SectionOf(const Op& op);
Attr DeviceOf(int section);

// Returns "cpu", "gpu", or "" if the operator names no device. The view is valid as long as the
// attribute. REQUIRES: AppendOp has checked the attribute.
std::string_view DeviceKindOf(const Op& op);

}  // namespace tandem
