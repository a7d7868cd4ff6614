// Memory layouts of image tensors [n,c,h,w]. Shapes always list n,c,h,w.
#pragma once

#include <string_view>

#include "kernels/ops/core/op.h"

namespace tandem {

enum class ImageLayout : uint8_t { kPlain, kBlocked, kLast };

// Row-major, in the order of the dimensions.
inline constexpr char kPlainLayout[] = "NCHW";
// oneDNN's name for [n, c/16, h, w, 16]. Valid only for multiples of 16 channels. The size in
// memory is the same, so element-wise operators need no conversion.
inline constexpr char kBlockedLayout[] = "nChw16c";
inline constexpr int64_t kLayoutBlock = 16;
// Channels last: the layout of oneDNN's bf16 convolutions.
inline constexpr char kLastLayout[] = "NHWC";

// Returns the layout that attribute `attr` names for a tensor of shape `shape`. An error if the
// name is unknown or the shape cannot have this layout.
StatusOr<ImageLayout> LayoutOf(const OpView& view, const char* attr, const Shape& shape);

constexpr AttrDef LayoutAttr(const char* name, const char* doc) {
  return {name, std::string_view(kPlainLayout), doc};
}

}  // namespace tandem
