#include "tests/bench/ceiling.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "oneapi/dnnl/dnnl.h"

namespace tandem::bench {

double SgemmGflops(int threads) {
  constexpr dnnl_dim_t kSide = 1024;
  constexpr int kRounds = 12;
  omp_set_num_threads(threads);
  const std::vector<float> a(kSide * kSide, 0.5f), b(kSide * kSide, 0.25f);
  std::vector<float> c(kSide * kSide);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Time start = SteadyNow();
    CHECK_EQ(dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1.0f, a.data(), kSide, b.data(), kSide, 0.0f,
                        c.data(), kSide),
             dnnl_success);
    const double seconds = Seconds(SteadyNow() - start);
    best = std::max(best, 2.0 * kSide * kSide * kSide / seconds * 1e-9);
  }
  CHECK_EQ(c[0], 0.125f * kSide);
  return best;
}

}  // namespace tandem::bench
