// Shapes of a batch normalisation, shared by its definition and its kernels.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/host_device.h"
#include "kernels/ops/image_layout.h"
#include "kernels/ops/op.h"

namespace tandem {

struct BatchNormShape {
  int64_t batch, channels;
  int64_t plane;  // elements of one channel of one image
  ImageLayout layout;
  bool blocked() const { return layout == ImageLayout::kBlocked; }
};

// One step of a running statistic. As one expression in f32: the same bits on every machine.
TD_HD float AdvanceStatistic(float momentum, float running, float now) {
  return running * momentum + now * (1.0f - momentum);
}

// From input 0 (X) of batch_norm, fused_bn_add_activation or their gradients.
StatusOr<BatchNormShape> BatchNormShapeOf(const OpView& view);

}  // namespace tandem
