// What the vector loops share; included by the code that is compiled once per instruction set,
// which says (loops_code.h) why everything here has internal linkage.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/exp.h"

// Outputs may be the inputs, element by element, so there is nothing carried from one element to
// another; the compiler's own overlap check would send in-place calls to scalar code.
#if defined(__clang__)
#define TANDEM_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

namespace tandem {
namespace {

// A formula (formulas/activation.h) over contiguous elements.
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
}  // namespace tandem
