// The attribute that says where an operator runs, by the reference's name and in its form
// (fluid.device_guard): "gpu:1" or "cpu:1" is section 1 of a pipeline; "gpu" or "cpu", with or
// without a number, the device that heter_worker_device_guard may name. Every operator may have it;
// where nothing is cut it means nothing.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "kernels/ops/core/op.h"

namespace tandem {

inline constexpr const char* kOpDevice = "op_device";
// Sections that a program can name.
inline constexpr int kSectionsMax = 4096;

// The section that the attribute's value names; -1: a device alone. INVALID_ARGUMENT for anything
// else.
StatusOr<int> SectionOf(const Attr& device);
// That of the operator; -1 where it names none. REQUIRES: checked by AppendOp.
int SectionOf(const Op& op);
Attr DeviceOf(int section);

// "cpu", "gpu", or "" where the operator names none; lives as long as the attribute. REQUIRES: as
// above.
std::string_view DeviceKindOf(const Op& op);

}  // namespace tandem
