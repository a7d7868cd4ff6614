#include "kernels/ops/cpu/gemm.h"

#include <libxsmm.h>

#include "common/base/require.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {

// libxsmm is column-major. The row-major product A B has the same memory layout as the column-major
// product B' A'. Therefore B is the first operand for libxsmm, and a transposed A is a transposed
// second operand. libxsmm compiles no kernels for a transposed first operand.
StatusOr<XsmmGemm::Fn> XsmmGemm::Dispatch(const Sizes& s, int64_t rows) {
  const libxsmm_blasint n = static_cast<libxsmm_blasint>(s.n);
  const libxsmm_blasint m = static_cast<libxsmm_blasint>(rows);
  const libxsmm_blasint k = static_cast<libxsmm_blasint>(s.k);
  const libxsmm_blasint lda = static_cast<libxsmm_blasint>(s.trans_a ? s.m : s.k);
  const float alpha = 1.0f, beta = s.accumulate ? 1.0f : 0.0f;
  const int flags = s.trans_a ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  const Fn kernel = libxsmm_smmdispatch(n, m, k, &n, &lda, &n, &alpha, &beta, &flags, &prefetch);
  if (kernel == nullptr) {
    return Unimplemented("libxsmm has no kernel for %d x %d x %d on this machine", rows, s.n, s.k);
  }
  return kernel;
}

StatusOr<XsmmGemm> XsmmGemm::Make(const Sizes& s) {
  // Measured on Sapphire Rapids with AVX-512: about 110 GFLOP/s per core while B fits in the L2
  // cache, 60 GFLOP/s or less if B is larger.
  constexpr int64_t kOperandMax = 256 * 1024;  // elements of B, or of a transposed A
  if (s.m < 1 || s.n < 1 || s.k < 1)
    return Unimplemented("this kernel does not support an empty product");
  if (s.k * s.n > kOperandMax || s.m > 1 << 24 || (s.trans_a && s.m * s.k > kOperandMax)) {
    return Unimplemented("a product of size %d x %d x %d is too large for this kernel", s.m, s.n,
                         s.k);
  }
  XsmmGemm gemm;
  gemm.sizes_ = s;
  TD_REQUIRE(s.parts >= 1);
  gemm.rows_[0] = s.m / s.parts;
  gemm.rows_[1] = gemm.rows_[0] + 1;
  for (int i = 0; i < 2; ++i) {
    if (gemm.rows_[i] == 0 || (i == 1 && s.m % s.parts == 0)) continue;
    TD_ASSIGN_OR_RETURN(gemm.kernel_[i], Dispatch(s, gemm.rows_[i]));
  }
  return gemm;
}

int XsmmGemm::PartsFor(int threads, int64_t m, int64_t n, int64_t k) {
  // The number of multiply-adds that take as long as one element operation (PartsFor).
  constexpr int64_t kProductsPerElement = 16;
  const int64_t cost = m * n * k / kProductsPerElement;
  return static_cast<int>(
      std::min<int64_t>(tandem::ops::PartsFor(threads, cost), std::max<int64_t>(m, 1)));
}

}  // namespace tandem::ops
