// How a tensor of images [n,c,h,w] lies in memory. Shapes always say n,c,h,w.
#pragma once

#include <string_view>

#include "kernels/ops/core/op.h"

namespace tandem {

enum class ImageLayout : uint8_t { kPlain, kBlocked, kLast };

// The order of the dimensions, row-major.
inline constexpr char kPlainLayout[] = "NCHW";
// oneDNN's name: [n, c/16, h, w, 16], for multiples of 16 channels alone. It takes as much memory,
// so element-wise operators work on it as it is.
inline constexpr char kBlockedLayout[] = "nChw16c";
inline constexpr int64_t kLayoutBlock = 16;
// Channels last: what oneDNN's bf16 convolutions want.
inline constexpr char kLastLayout[] = "NHWC";

// The layout that attribute `attr` says for a tensor of shape `shape`. An error when it names none,
// or the shape cannot lie so.
StatusOr<ImageLayout> LayoutOf(const OpView& view, const char* attr, const Shape& shape);

AttrDef LayoutAttr(const char* name, const char* doc);

}  // namespace tandem
