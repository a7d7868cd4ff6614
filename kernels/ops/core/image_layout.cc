#include "kernels/ops/core/image_layout.h"

namespace tandem::ops {

StatusOr<ImageLayout> LayoutOf(const OpView& view, const char* attr, const Shape& shape) {
  const auto layout = view.attr<std::string>(attr);
  if (layout == kPlainLayout) return ImageLayout::kPlain;
  if (layout == kLastLayout) {
    if (shape.rank() == 4) return ImageLayout::kLast;
    return view.Error(absl::StrFormat("%s=%s needs an input [n,c,h,w], but the shape is %s", attr,
                                      layout, ToString(shape)));
  }
  if (layout != kBlockedLayout) {
    return view.Error(absl::StrFormat("%s must be \"%s\", \"%s\" or \"%s\", not \"%s\"", attr,
                                      kPlainLayout, kBlockedLayout, kLastLayout, layout));
  }
  if (shape.rank() != 4 || shape[1] % kLayoutBlock != 0) {
    return view.Error(absl::StrFormat(
        "%s=%s needs an input [n,c,h,w] with a multiple of %d channels, but the shape is %s", attr,
        layout, kLayoutBlock, ToString(shape)));
  }
  return ImageLayout::kBlocked;
}

}  // namespace tandem::ops
