// 16-bit tensors for kernels that are written for f32.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// True when this machine computes products of that type faster than in f32.
bool HasFastHalf(DType dtype);

// An input or output of the operator has 16 bits.
bool HasHalf(const OpView& view);

// A kernel of `f32`, an implementation that serves f32 alone: 16-bit inputs are widened into
// scratch, 16-bit outputs rounded to nearest even. An elementwise operator over tensors of one
// shape is carried out block by block in the cache; any other takes scratch for whole tensors.
StatusOr<Kernel> PrepareWidened(const OpView& view, const PrepareContext& ctx, PrepareFn f32);

// `f32` as an implementation for f32 and, by PrepareWidened, for 16 bits.
template <PrepareFn f32>
StatusOr<Kernel> OrWidened(const OpView& view, const PrepareContext& ctx) {
  return HasHalf(view) ? PrepareWidened(view, ctx, f32) : f32(view, ctx);
}

// `native` where it serves these types, else by PrepareWidened.
template <PrepareFn native>
StatusOr<Kernel> NativeOrWidened(const OpView& view, const PrepareContext& ctx) {
  StatusOr<Kernel> kernel = native(view, ctx);
  const bool other = !kernel.ok() && kernel.status().code() == StatusCode::kUnimplemented;
  return other && HasHalf(view) ? PrepareWidened(view, ctx, native) : std::move(kernel);
}

// `f32` for f32 and nothing else.
template <PrepareFn f32>
StatusOr<Kernel> F32Alone(const OpView& view, const PrepareContext& ctx) {
  if (HasHalf(view)) return Unimplemented("only for f32");
  return f32(view, ctx);
}

}  // namespace tandem
