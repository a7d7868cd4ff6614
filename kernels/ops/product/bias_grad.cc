#include "kernels/ops/product/bias_grad.h"

#include <algorithm>

#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {

BiasGrad::BiasGrad(DType dtype, int64_t m, int64_t n, int threads)
    : loops_(BestLoops()),
      widen_(dtype == DType::kF32 ? nullptr : BestHalfLoops().widen_bf16),
      m_(m),
      n_(n),
      parts_(PartsFor(threads, m * n)) {}

void BiasGrad::Run(const void* grad, float* sum) const {
  constexpr int64_t kPiece = 256;
  ParallelFor(parts_, n_, [&](int, int64_t begin, int64_t end) {
    float wide[kPiece];
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t n = std::min(kPiece, end - at);
      std::fill_n(sum + at, n, 0.0f);
      for (int64_t i = 0; i < m_; ++i) {
        const int64_t from = i * n_ + at;
        const float* row = wide;
        if (widen_ == nullptr) {
          row = static_cast<const float*>(grad) + from;
        } else {
          widen_(static_cast<const uint16_t*>(grad) + from, wide, n);
        }
        loops_.add(sum + at, row, sum + at, n);
      }
    }
  });
}

}  // namespace tandem::ops
