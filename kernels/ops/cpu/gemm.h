// Small dense matrix products. libxsmm compiles a kernel for the shape when the plan is made.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace tandem {

// C [m, n] = A [m, k] B [k, n], or C += A B; row-major, dense, f32. The rows of C are split into
// `parts`, which different threads may compute at the same time. The size of a part can change the
// last bits. Thread-safe.
class XsmmGemm {
 public:
  struct Sizes {
    int64_t m, n, k;
    bool trans_a;     // A is stored as [k, m]
    bool accumulate;  // C += A B
    int parts;
  };

  XsmmGemm() = default;
  // UNIMPLEMENTED: libxsmm has no kernel, or the product is too large to be fast with one.
  static StatusOr<XsmmGemm> Make(const Sizes& sizes);

  void Run(int part, const float* a, const float* b, float* c) const {
    const int64_t begin = sizes_.m * part / sizes_.parts;
    const int64_t end = sizes_.m * (part + 1) / sizes_.parts;
    if (begin == end) return;
    (end - begin == rows_[0] ? kernel_[0] : kernel_[1])(
        b, a + begin * (sizes_.trans_a ? 1 : sizes_.k), c + begin * sizes_.n);
  }

  // Returns the number of threads that is worthwhile for a product of this size.
  static int PartsFor(int threads, int64_t m, int64_t n, int64_t k);

 private:
  using Fn = void (*)(const float*, const float*, float*, ...);
  static StatusOr<Fn> Dispatch(const Sizes& sizes, int64_t rows);

  Sizes sizes_{};
  // A part has one of these two numbers of rows.
  int64_t rows_[2] = {0, 0};
  Fn kernel_[2] = {nullptr, nullptr};
};

}  // namespace tandem
