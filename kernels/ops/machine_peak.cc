#include "kernels/ops/machine_peak.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "common/base/clock.h"

namespace tandem {
namespace {

// Best of three, after one that warms up.
double BestSeconds(const std::function<void()>& work) {
  work();
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const Time begin = SteadyNow();
    work();
    best = std::min(best, Seconds(SteadyNow() - begin));
  }
  return best;
}

}  // namespace

MachinePeak MeasurePeak(int threads) {
  const int threads_before = omp_get_max_threads();
  omp_set_num_threads(threads);  // oneDNN takes as many
  constexpr dnnl_dim_t kN = 1536;
  std::vector<float> a(kN * kN, 1.0f), b(kN * kN, 0.5f), c(kN * kN);
  const double product = BestSeconds([&] {
    (void)dnnl_sgemm('N', 'N', kN, kN, kN, 1.0f, a.data(), kN, b.data(), kN, 0.0f, c.data(), kN);
  });
  omp_set_num_threads(threads_before);

  constexpr size_t kBytes = size_t{256} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes);
  const auto parts = static_cast<size_t>(threads);
  const double copy = BestSeconds([&] {
#pragma omp parallel for num_threads(threads)
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = kBytes * part / parts, end = kBytes * (part + 1) / parts;
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    }
  });
  const double n = static_cast<double>(kN);
  return {2 * n * n * n / product, 2.0 * static_cast<double>(kBytes) / copy};
}

}  // namespace tandem
