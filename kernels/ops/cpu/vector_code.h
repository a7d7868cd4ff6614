// Helpers of the vector loops, for files that are compiled once per instruction set. loops_code.h
// explains why everything in this file has internal linkage.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/exp.h"

// Tells the compiler that there is no dependency between elements: an output may be an input, but
// only element by element. Without this information, the compiler would check for overlap at run
// time, and use scalar code if an output is an input.
#if defined(__clang__)
#define TANDEM_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

namespace tandem::ops {
namespace {

// Applies a formula (formulas/activation.h) to contiguous elements.
template <typename Formula>
void UnaryLoop(const float* x, float* y, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = Formula::Of(x[i]);
}

template <typename Formula>
void PairLoop(const float* x, const float* y, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = y[i];
    out[i] = Formula::Of(a, b);
  }
}

template <typename Formula>
void PairGradXLoop(const float* x, const float* y, const float* g, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = y[i], c = g[i];
    out[i] = Formula::GradX(a, b, c);
  }
}

template <typename Formula>
void PairGradYLoop(const float* x, const float* y, const float* g, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = y[i], c = g[i];
    out[i] = Formula::GradY(a, b, c);
  }
}

}  // namespace
}  // namespace tandem::ops
