// op_overhead: the time that the executor adds to each operator, measured with kernels that do
// nothing.
#include <functional>

#include "common/base/clock.h"
#include "kernels/exec/executor.h"
#include "tests/bench/report.h"

namespace tandem::bench {
namespace {

constexpr int kOps = 1000;
constexpr int kChunk = 200;  // number of runs of the plan per time measurement

struct Nothing {};
Status DoNothing(Nothing&, const ops::KernelArgs&) { return OkStatus(); }
StatusOr<ops::Kernel> PrepareNothing(const ops::OpView&, const ops::PrepareContext&) {
  return ops::MakeKernel<Nothing, DoNothing>(Nothing());
}

// A CPU backend whose kernel for `scale` does nothing.
const exec::BackendModule kEmptyModule = {
    .abi = exec::BackendModule::kAbi,
    .name = "empty",
    .device_count = []() -> StatusOr<int> { return 1; },
    .make_device = [](int, const DeviceMemoryOptions&) -> StatusOr<std::unique_ptr<Device>> {
      return std::unique_ptr<Device>(std::make_unique<CpuDevice>());
    },
    .kernels = []() -> std::span<const ops::KernelRegistration> {
      static const std::vector<ops::KernelRegistration> rows = {
          {"scale", {{"empty", PrepareNothing}}}};
      return rows;
    },
};

// Returns a program with kOps operators `scale`. Each operator reads the output of the previous
// operator. All tensors have one element.
StatusOr<graph::Program> Chain() {
  graph::Program program;
  program.name = "chain";
  TD_RETURN_IF_ERROR(
      program.AddVar({.name = "x0", .kind = graph::VarKind::kData, .desc = {DType::kF32, {1, 1}}}));
  for (int i = 0; i < kOps; ++i) {
    TD_RETURN_IF_ERROR(graph::AppendOp(program, {.type = "scale",
                                                 .inputs = {{absl::StrFormat("x%d", i)}},
                                                 .outputs = {{absl::StrFormat("x%d", i + 1)}},
                                                 .attrs = {{"scale", 1.0}}}));
  }
  return program;
}

// Returns the median time per operator in nanoseconds. Assumes that each call of `run` runs the
// chain kChunk times.
StatusOr<double> NanosPerOp(double seconds, const std::function<Status()>& run) {
  std::vector<double> nanos;
  double total = 0;
  while (total < seconds || nanos.size() < 3) {
    const Time start = SteadyNow();
    TD_RETURN_IF_ERROR(run());
    const double taken = Seconds(SteadyNow() - start);
    total += taken;
    nanos.push_back(taken * 1e9 / (kChunk * kOps));
  }
  return Median(nanos);
}

StatusOr<double> Executed(const exec::Backend& backend, double seconds) {
  TD_ASSIGN_OR_RETURN(const graph::Program program, Chain());
  TD_ASSIGN_OR_RETURN(const auto device, backend.MakeDevice(0));
  exec::Scope scope(*device);
  TD_ASSIGN_OR_RETURN(const auto plan, exec::Plan::Make(program, backend, scope, nullptr, {}));
  TD_ASSIGN_OR_RETURN(const Tensor x, plan->Get("x0"));
  x.span<float>()[0] = 1;
  exec::Executor executor(*plan);
  return NanosPerOp(seconds, [&] { return executor.Run(kChunk); });
}

// Calls the kernels of the empty `scale` in a loop without an executor. The result is the minimum
// cost of calls through pointers.
StatusOr<double> BareLoop(double seconds) {
  std::vector<ops::KernelFn> kernels(kOps, ops::MakeKernel<Nothing, DoNothing>(Nothing()).run);
  Nothing state;
  const ops::KernelArgs args{
      .in = nullptr, .out = nullptr, .scratch = nullptr, .state = &state, .stream = nullptr};
  return NanosPerOp(seconds, [&] {
    for (int i = 0; i < kChunk; ++i) {
      for (const ops::KernelFn kernel : kernels) TD_RETURN_IF_ERROR(kernel(args));
    }
    return OkStatus();
  });
}

}  // namespace

StatusOr<Report> OpOverhead(const RunOptions& options) {
  const double seconds = options.seconds / 3;
  TD_ASSIGN_OR_RETURN(const double empty,
                      Executed(exec::Backend::Of(PlaceKind::kCpu, kEmptyModule), seconds));
  TD_ASSIGN_OR_RETURN(const double scale, Executed(exec::Backend::Cpu(), seconds));
  TD_ASSIGN_OR_RETURN(const double bare, BareLoop(seconds));
  Report report;
  report.Add("ns_per_op", empty);
  report.Add("ns_per_op_bare_loop", bare);
  report.Add("ns_per_op_scale_one_element", scale);
  report.Add("ops", kOps);
  return report;
}

}  // namespace tandem::bench
