// Runs kernels that were written for f32 on 16-bit tensors.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Returns true if an input or output of the operator has 16 bits.
bool HasHalf(const OpView& view);

// Makes a kernel from `f32`, an implementation that supports only f32. The kernel widens 16-bit
// inputs into scratch memory and rounds 16-bit outputs to nearest even. An elementwise operator
// over tensors of one shape runs block by block in the cache. Any other operator needs scratch
// memory for whole tensors.
StatusOr<Kernel> PrepareWidened(const OpView& view, const PrepareContext& ctx, PrepareFn f32);

// Returns a kernel of `f32` if all tensors are f32. Returns a kernel of PrepareWidened if a tensor
// has 16 bits.
template <PrepareFn f32>
StatusOr<Kernel> OrWidened(const OpView& view, const PrepareContext& ctx) {
  return HasHalf(view) ? PrepareWidened(view, ctx, f32) : f32(view, ctx);
}

// Returns a kernel of `native`. If `native` is UNIMPLEMENTED and a tensor has 16 bits, returns a
// kernel of PrepareWidened instead.
template <PrepareFn native>
StatusOr<Kernel> NativeOrWidened(const OpView& view, const PrepareContext& ctx) {
  StatusOr<Kernel> kernel = native(view, ctx);
  const bool other = !kernel.ok() && kernel.status().code() == StatusCode::kUnimplemented;
  return other && HasHalf(view) ? PrepareWidened(view, ctx, native) : std::move(kernel);
}

// Returns a kernel of `f32`. UNIMPLEMENTED: a tensor has 16 bits.
template <PrepareFn f32>
StatusOr<Kernel> F32Alone(const OpView& view, const PrepareContext& ctx) {
  if (HasHalf(view))
    return Unimplemented("a tensor has 16-bit elements, but this kernel supports only f32");
  return f32(view, ctx);
}

}  // namespace tandem::ops
