// Small dense matrix products with libxsmm, which compiles a kernel for the shape when the plan is
// made.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace tandem::ops {

// Computes C [m, n] = A [m, k] B [k, n], or C += A B. Matrices are row-major, dense and f32. The
// rows of C are split into `parts`, which several threads may compute at the same time. The number
// of rows of a part can change the last bits of C. Thread-safe.
class XsmmGemm {
 public:
  struct Sizes {
    int64_t m, n, k;
    bool trans_a;     // true: A is stored in transposed form as [k, m]
    bool accumulate;  // true: C += A B; false: C = A B
    int parts;
  };

  XsmmGemm() = default;
  // UNIMPLEMENTED: libxsmm has no kernel for these sizes, or the product is so large that libxsmm
  // is slow.
  static StatusOr<XsmmGemm> Make(const Sizes& sizes);

  void Run(int part, const float* a, const float* b, float* c) const {
    const int64_t begin = sizes_.m * part / sizes_.parts;
    const int64_t end = sizes_.m * (part + 1) / sizes_.parts;
    if (begin == end) return;
    (end - begin == rows_[0] ? kernel_[0] : kernel_[1])(
        b, a + begin * (sizes_.trans_a ? 1 : sizes_.k), c + begin * sizes_.n);
  }

  // Returns the number of threads that should share a product of this size, at most `threads`.
  static int PartsFor(int threads, int64_t m, int64_t n, int64_t k);

 private:
  using Fn = void (*)(const float*, const float*, float*, ...);
  static StatusOr<Fn> Dispatch(const Sizes& sizes, int64_t rows);

  Sizes sizes_{};
  // The two possible numbers of rows of a part, and a kernel for each.
  int64_t rows_[2] = {0, 0};
  Fn kernel_[2] = {nullptr, nullptr};
};

}  // namespace tandem::ops
