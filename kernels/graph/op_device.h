// The attribute that says in which section of a pipeline an operator is, by the reference's name
// and in its form: op_device "gpu:1" (fluid.device_guard) or "cpu:1" is section 1. Every operator
// may have it; where nothing is cut it means nothing.
#pragma once

#include "common/base/status.h"
#include "kernels/ops/op.h"

namespace tandem {

inline constexpr const char* kOpDevice = "op_device";
// Sections that a program can name.
inline constexpr int kSectionsMax = 4096;

// The section that the attribute's value names. INVALID_ARGUMENT for anything else.
StatusOr<int> SectionOf(const Attr& device);
// That of the operator; -1 where it names none. REQUIRES: checked by AppendOp.
int SectionOf(const Op& op);
Attr DeviceOf(int section);

}  // namespace tandem
