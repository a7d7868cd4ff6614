// Declarations for the CUDA kernels of batch_norm: batch_norm_cuda.cu and sync_batch_norm_cuda.cu.
#pragma once

#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/norm/batch_norm.h"

namespace tandem::ops {

struct BatchNormState {
  int64_t outer, channels, inner;  // sizes of X, viewed as [outer, channels, inner]
  float count;                     // number of elements per channel
  float images;
  int64_t plane;
  float momentum, epsilon;
  bool is_test, relu;

  int64_t numel() const { return outer * channels * inner; }
  MiddleSums sums() const { return {outer, channels, inner}; }
  // Returns the scratch bytes for a run: two sums per channel, and the scratch of the summation.
  size_t scratch_bytes() const {
    return 2 * static_cast<size_t>(channels) * sizeof(float) + sums().scratch_bytes();
  }
};

// Returns element i of g': g where y > 0, and 0 elsewhere. If y is nullptr, g' is g.
template <typename T>
struct Masked {
  const T *y, *g;
  __device__ float operator()(int64_t i) const {
    return y == nullptr || Wide(y[i]) > 0.0f ? Wide(g[i]) : 0.0f;
  }
};

// Returns a state in which only the sizes are set.
inline StatusOr<BatchNormState> BatchNormStateOf(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  if (s.blocked()) return Unimplemented("this kernel does not support layout nChw16c");
  const bool last = s.layout == ImageLayout::kLast;
  BatchNormState state{};
  state.outer = last ? s.batch * s.plane : s.batch;
  state.channels = s.channels;
  state.inner = last ? 1 : s.plane;
  state.count = static_cast<float>(s.batch * s.plane);
  state.images = static_cast<float>(s.batch);
  state.plane = s.plane;
  return state;
}

inline StatusOr<BatchNormState> BatchNormSettingsOf(const OpView& view, bool relu) {
  TD_ASSIGN_OR_RETURN(BatchNormState state, BatchNormStateOf(view));
  state.momentum = static_cast<float>(view.attr<double>("momentum"));
  state.epsilon = static_cast<float>(view.attr<double>("epsilon"));
  state.is_test = view.attr<bool>("is_test");
  state.relu = relu;
  return state;
}

}  // namespace tandem::ops
