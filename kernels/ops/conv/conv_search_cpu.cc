#include <cstring>
#include <limits>

#include "common/os/cpu_model.h"
#include "common/tensor/device.h"
#include "kernels/ops/conv/conv_search.h"
#include "kernels/ops/core/kernel_settings.h"
#include "kernels/ops/cpu/dnnl_program.h"

namespace tandem::ops {
namespace {

// Returns `count` buffers, buffer i with bytes(i) bytes. `device` must outlive the buffers.
StatusOr<std::vector<Buffer>> Memory(CpuDevice& device, size_t count,
                                     const std::function<size_t(size_t)>& bytes) {
  std::vector<Buffer> memory;
  for (size_t i = 0; i < count; ++i) {
    TD_ASSIGN_OR_RETURN(memory.emplace_back(), device.Allocate(bytes(i)));
    // Each element is 0.0115 as f32, 0.0115 as bf16 or 1.06 as f16: a normal number.
    std::memset(memory.back().get(), 0x3c, bytes(i));
  }
  return memory;
}

std::vector<void*> Pointers(const std::vector<Buffer>& memory) {
  std::vector<void*> pointers;
  for (const Buffer& buffer : memory) pointers.push_back(buffer.get());
  return pointers;
}

}  // namespace

std::string CpuMachine(int threads) {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrFormat("%s; instruction set %d; oneDNN %d.%d.%d; %d threads", CpuModel(),
                         static_cast<int>(dnnl::get_effective_cpu_isa()), version->major,
                         version->minor, version->patch, threads);
}

StatusOr<double> MeasureKernel(const Kernel& kernel, const OpView& view, double best_us) {
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const std::vector<Buffer> in, Memory(device, view.in_count(), [&](size_t i) {
                        return view.has_in(i) ? view.in(i).bytes() : 0;
                      }));
  TD_ASSIGN_OR_RETURN(const std::vector<Buffer> out,
                      Memory(device, view.out_count(),
                             [&](size_t i) { return view.has_out(i) ? view.out(i).bytes() : 0; }));
  TD_ASSIGN_OR_RETURN(const std::vector<Buffer> scratch,
                      Memory(device, 1, [&](size_t) { return kernel.scratch_bytes; }));
  const std::vector<void*> inputs = Pointers(in), outputs = Pointers(out);
  const KernelArgs args = {.in = inputs.data(),
                           .out = outputs.data(),
                           .scratch = scratch[0].get(),
                           .state = kernel.state.get(),
                           .stream = nullptr};
  return MeasureRuns([&] { return kernel.run(args); }, best_us);
}

StatusOr<Kernel> UnlessSlower(const OpView& view, const PrepareContext& ctx, PrepareFn own,
                              PrepareFn other) {
  TD_ASSIGN_OR_RETURN(Kernel kernel, own(view, ctx));
  if (kernel.scratch_bytes > ctx.settings.conv.scratch_max) {
    return Unimplemented(
        "this kernel needs %d bytes of scratch memory, which is more than "
        "conv_workspace_size_limit",
        kernel.scratch_bytes);
  }
  if (ctx.settings.conv.search == nullptr) return kernel;
  const auto measure = [&]() -> StatusOr<std::vector<ConvMeasurement>> {
    ConvMeasurement mine{.name = "own", .scratch_bytes = kernel.scratch_bytes};
    TD_ASSIGN_OR_RETURN(mine.us,
                        MeasureKernel(kernel, view, std::numeric_limits<double>::infinity()));
    const StatusOr<Kernel> rival = other(view, ctx);
    if (!rival.ok()) return std::vector{mine};
    ConvMeasurement theirs{.name = "onednn", .scratch_bytes = rival->scratch_bytes};
    TD_ASSIGN_OR_RETURN(theirs.us, MeasureKernel(*rival, view, mine.us));
    return std::vector{mine, theirs};
  };
  TD_ASSIGN_OR_RETURN(const std::string fastest,
                      ctx.settings.conv.search->Fastest(CpuMachine(ctx.threads),
                                                        "own or oneDNN: " + ConvProblem(view),
                                                        ctx.settings.conv.scratch_max, measure));
  if (fastest == "own") return kernel;
  return Unimplemented("the measurement chose a oneDNN kernel, not this kernel");
}

}  // namespace tandem::ops
