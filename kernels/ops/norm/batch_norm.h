// The shape of a batch normalisation, used by its definition and its kernels.
#pragma once

#include <cstdint>

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/op.h"
#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {

struct BatchNormShape {
  int64_t batch, channels;
  int64_t plane;  // number of elements of one channel in one image
  ImageLayout layout;
  bool blocked() const { return layout == ImageLayout::kBlocked; }
};

// Returns the running statistic after a step whose statistic is `now`. The same f32 expression is
// used on all devices, so all devices compute the same bits.
TD_HD float AdvanceStatistic(float momentum, float running, float now) {
  return running * momentum + now * (1.0f - momentum);
}

// The moments of all samples of a step. Add merges the moments of one rank (sync_batch_norm.cc).
struct JoinedMoments {
  double count = 0, mean = 0, m2 = 0;

  TD_HD void Add(double n, double mean_of_rank, double variance_of_rank) {
    if (n == 0) return;
    const double delta = mean_of_rank - mean, total = count + n;
    mean += delta * n / total;
    m2 += n * variance_of_rank + delta * delta * count * n / total;
    count = total;
  }
};

// Returns the shape of input 0 (X) of batch_norm, fused_bn_add_activation or their gradients.
StatusOr<BatchNormShape> BatchNormShapeOf(const OpView& view);

}  // namespace tandem::ops
