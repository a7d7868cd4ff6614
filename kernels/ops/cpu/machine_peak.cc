#include "kernels/ops/cpu/machine_peak.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "kernels/ops/cpu/dnnl_program.h"

namespace tandem::ops {
namespace {

// Calls `work` repeatedly for a fixed time, after one warm-up call. Returns the duration of the
// shortest call in seconds.
double BestSeconds(const std::function<void()>& work) {
  constexpr double kSeconds = 0.4;
  constexpr int kCallsMin = 3;
  work();
  double best = 1e30;
  const Time start = SteadyNow();
  for (int i = 0; i < kCallsMin || Seconds(SteadyNow() - start) < kSeconds; ++i) {
    const Time begin = SteadyNow();
    work();
    best = std::min(best, Seconds(SteadyNow() - begin));
  }
  return best;
}

// Runs `probe` on `threads` threads at the same time and returns the sum of its results. The
// threads do not wait for each other. Therefore another process that interrupts a thread affects
// only one call of this thread's work.
double SumOverThreads(int threads, const std::function<double()>& probe) {
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (double& rate : rates) running.emplace_back([&probe, &rate] { rate = probe(); });
  for (std::thread& thread : running) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

// Measures the operations per second of one thread. A probe multiplies square matrices that fit
// into a cache, and takes less than a time slice.
double Flops() {
  const OmpThreads one(1);
  constexpr dnnl_dim_t kN = 384;
  const std::vector<float> a(kN * kN, 1.0f), b(kN * kN, 0.5f);
  std::vector<float> c(kN * kN);
  const double seconds = BestSeconds([&] {
    (void)dnnl_sgemm('N', 'N', kN, kN, kN, 1.0f, a.data(), kN, b.data(), kN, 0.0f, c.data(), kN);
  });
  const double n = static_cast<double>(kN);
  return 2 * n * n * n / seconds;
}

// Returns the bytes read and written per second by copies of one thread. The thread copies a buffer
// of `bytes` bytes piece by piece. The buffer is so large that no cache still contains a piece when
// the thread copies this piece again.
double CopiedBytes(size_t bytes) {
  const size_t piece = std::min(bytes, size_t{8} << 20);
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes);
  size_t at = 0;
  const double seconds = BestSeconds([&] {
    std::memcpy(to.data() + at, from.data() + at, piece);
    at = at + 2 * piece <= bytes ? at + piece : 0;
  });
  return 2.0 * static_cast<double>(piece) / seconds;
}

// Returns the number of threads of the machine that run now, without the calling thread. 0: no
// other thread runs, or the number is unknown.
int OtherRunningThreads() {
  std::ifstream file("/proc/loadavg");
  std::string skipped;
  int running = 0;
  file >> skipped >> skipped >> skipped >> running;
  return std::max(0, running - 1);
}

}  // namespace

MachinePeak MeasurePeak(int threads) {
  constexpr size_t kBytes = size_t{256} << 20;
  const int others = OtherRunningThreads();
  const double flops = SumOverThreads(threads, Flops);
  const size_t part = kBytes / static_cast<size_t>(threads);
  return {flops, SumOverThreads(threads, [part] { return CopiedBytes(part); }), others};
}

}  // namespace tandem::ops
