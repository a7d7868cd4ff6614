// Measures the speed of every implementation of an operator on the rows of op_cases.h whose field
// `bench` is true. With --all, measures all rows. Prints each speed. On the CPU, also prints the
// share of the machine's peak.
#include <gflags/gflags.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "kernels/ops/cpu/machine_peak.h"
#include "tests/ops/kernel_run.h"
#include "tests/ops/module.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/oracle.h"

DEFINE_string(filter, "", "only rows whose name contains this");
DEFINE_bool(all, false, "every row, not only those worth timing");
DEFINE_int32(threads, 1, "threads a kernel may use");
DEFINE_string(place, "cpu", "cpu or cuda");
DEFINE_int32(time_ms, 30, "shortest time to repeat a kernel for");

namespace tandem::optest {
namespace {

// Returns the seconds per call: the minimum over three series of calls. Each series lasts at least
// a third of --time_ms. `finish` waits for the end of all calls.
double SecondsOf(const std::function<void()>& work, const std::function<void()>& finish) {
  using Clock = std::chrono::steady_clock;
  const double shortest = FLAGS_time_ms / 3000.0;
  double best = 1e30;
  int64_t calls = 1;
  for (int series = 0; series < 3;) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) work();
    finish();
    const double s = std::chrono::duration<double>(Clock::now() - start).count();
    if (s < shortest) {
      calls = std::max(calls + 1, static_cast<int64_t>(1.2 * static_cast<double>(calls) *
                                                       std::min(shortest / (s + 1e-9), 100.0)));
      continue;
    }
    best = std::min(best, s / static_cast<double>(calls));
    ++series;
  }
  return best;
}

// Measures one implementation and prints a line. On the CPU, `peak` is set and `device` is nullptr.
// On a device, `peak` is nullptr and the line has no share of the peak.
void Time(const OpCase& c, const ops::KernelImpl& impl, const std::vector<Value>& inputs,
          const std::vector<Value>& want, const ops::MachinePeak* peak, Device* device) {
  auto made = KernelRun::Make(c, inputs, device);
  CHECK(made.ok()) << made.status();
  KernelRun& run = **made;
  Status status = run.Prepare(impl, FLAGS_threads,
                              device == nullptr ? SIZE_MAX : KernelRun::kDeviceConvScratch);
  if (status.code() == StatusCode::kUnimplemented) return;
  if (status.ok()) status = run.Run();
  // Returns after an error, so that the program continues: results of other rows may show the
  // cause.
  if (!status.ok()) {
    std::printf("WRONG: %-8s %s: %s\n", impl.name, CaseName(c).c_str(), ToString(status).c_str());
    return;
  }
  std::string wrong;
  for (size_t i = 0; i < want.size() && wrong.empty(); ++i) {
    if (run.HasOutput(i)) wrong = Compare(run.Output(i), want[i], c.tolerance);
  }
  const double s = SecondsOf([&run] { (void)run.RunAgain(); },
                             [device] { CHECK(device == nullptr || device->Synchronize().ok()); });
  const double bytes = static_cast<double>(run.BytesMoved());
  const bool compute = c.flops > 0;
  const double rate = compute ? c.flops / s : bytes / s;
  std::printf("%10.1f us %8.2f %s", s * 1e6, rate / 1e9, compute ? "GFLOP/s" : "GB/s   ");
  if (peak != nullptr) std::printf(" %5.1f%%", 100 * rate / (compute ? peak->flops : peak->bytes));
  std::printf("  %-8s %s%s%s\n", impl.name, CaseName(c).c_str(),
              wrong.empty() ? "" : "  WRONG: ", wrong.c_str());
}

// Measures the rows that the flags request. `impls` returns the implementations of an operator.
void TimeRows(const std::function<std::span<const ops::KernelImpl>(std::string_view)>& impls,
              const ops::MachinePeak* peak, Device* device) {
  for (const OpCase& c : AllCases()) {
    if ((!c.bench && !FLAGS_all) || CaseName(c).find(FLAGS_filter) == std::string::npos) continue;
    const auto inputs = DrawInputs(c, 1);
    const auto want = RunOracle(c, inputs);
    for (const ops::KernelImpl& impl : impls(c.op)) Time(c, impl, inputs, want, peak, device);
  }
}

int BenchCuda() {
  // Prints each line at once, because the program may be stopped before its end.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto module = OpenCudaModule();
  StatusOr<std::unique_ptr<Device>> device = module.status();
  if (module.ok()) device = (*module)->make_device(0, {});
  if (!device.ok()) {
    std::fprintf(stderr, "--place=cuda: %s\n", ToString(device.status()).c_str());
    return ExitCodeOf(device.status());
  }
  TimeRows([&module](std::string_view op) { return KernelsOf(**module, op); }, nullptr,
           device->get());
  return 0;
}

int Bench() {
  omp_set_num_threads(FLAGS_threads);
  const ops::MachinePeak peak = ops::MeasurePeak(FLAGS_threads);
  std::printf(
      "peak on %d threads: %.1f GFLOP/s (oneDNN, 1536^3), %.1f GB/s (copy of 256 MiB); "
      "data in a cache goes beyond the latter\n",
      FLAGS_threads, peak.flops / 1e9, peak.bytes / 1e9);
  TimeRows(
      [](std::string_view op) {
        return std::span<const ops::KernelImpl>(ops::FindOp(op)->cpu_kernels());
      },
      &peak, nullptr);
  return 0;
}

}  // namespace
}  // namespace tandem::optest

int main(int argc, char** argv) {
  gflags::SetUsageMessage("op_bench [--filter=conv2d] [--threads=2]: times operators");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_threads < 1 || FLAGS_time_ms < 1) {
    std::fprintf(stderr, "--threads and --time_ms must be at least 1\n");
    return tandem::kExitUsage;
  }
  if (FLAGS_place == "cuda") return tandem::optest::BenchCuda();
  if (FLAGS_place != "cpu") {
    std::fprintf(stderr, "--place must be cpu or cuda\n");
    return tandem::kExitUsage;
  }
  return tandem::optest::Bench();
}
