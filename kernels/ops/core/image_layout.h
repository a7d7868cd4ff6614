// Memory layouts of image tensors. The shape of a tensor is [n,c,h,w] in every layout.
#pragma once

#include <string_view>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

enum class ImageLayout : uint8_t { kPlain, kBlocked, kLast };

// Name of the row-major layout [n,c,h,w].
inline constexpr char kPlainLayout[] = "NCHW";
// oneDNN's name for the blocked layout [n, c/16, h, w, 16]. The number of channels must be a
// multiple of 16. A tensor needs as much memory as in NCHW, so element-wise operators process a
// blocked tensor without conversion.
inline constexpr char kBlockedLayout[] = "nChw16c";
inline constexpr int64_t kLayoutBlock = 16;
// Name of the layout with channels last, [n,h,w,c]. oneDNN's bf16 convolutions use this layout.
inline constexpr char kLastLayout[] = "NHWC";

// Returns the layout that attribute `attr` names. INVALID_ARGUMENT: the name is unknown, or a
// tensor of shape `shape` cannot have this layout.
StatusOr<ImageLayout> LayoutOf(const OpView& view, const char* attr, const Shape& shape);

constexpr AttrDef LayoutAttr(const char* name, const char* doc) {
  return {name, std::string_view(kPlainLayout), doc};
}

}  // namespace tandem::ops
