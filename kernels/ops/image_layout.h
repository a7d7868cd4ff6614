// How a tensor of images [n,c,h,w] lies in memory. Shapes always say n,c,h,w.
#pragma once

#include <string_view>

#include "kernels/ops/op.h"

namespace tandem {

// The order of the dimensions, row-major.
inline constexpr char kPlainLayout[] = "NCHW";
// oneDNN's name: [n, c/16, h, w, 16], for multiples of 16 channels alone. It takes as much memory,
// so element-wise operators work on it as it is.
inline constexpr char kBlockedLayout[] = "nChw16c";
inline constexpr int64_t kLayoutBlock = 16;

// Whether attribute `attr`, a layout of a tensor of shape `shape`, is the blocked one. An error
// when it is neither, or when the shape cannot be blocked.
StatusOr<bool> IsBlocked(const OpView& view, const char* attr, const Shape& shape);

AttrDef LayoutAttr(const char* name, const char* doc);

}  // namespace tandem
