#include "kernels/exec/roofline.h"

#include <algorithm>

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/half.h"

namespace tandem::exec {
namespace {

// Floating-point operations of one multiprocessor per cycle: twice its multiply-adds. Source:
// NVIDIA's descriptions of the architectures.
struct Units {
  int major, minor;
  double f32, tf32, half;
};
constexpr Units kUnits[] = {
    {8, 0, 128, 1024, 2048},  // compute capability 8.0: A100
    {9, 0, 256, 2048, 4096},  // compute capability 9.0: H100, H200
};
// The memory transfers per clock cycle. There is one transfer at each clock edge.
constexpr double kTransfersPerCycle = 2;

}  // namespace

StatusOr<DevicePeak> PeakOf(const DeviceProperties& card) {
  const auto* const units = std::find_if(
      std::begin(kUnits), std::end(kUnits),
      [&card](const Units& u) { return u.major == card.major && u.minor == card.minor; });
  if (units == std::end(kUnits)) {
    return NotFound("the peak speed of compute capability %d.%d is not known", card.major,
                    card.minor);
  }
  const double cycles = card.multiprocessors * card.clock_hz;
  return DevicePeak{.f32_flops = cycles * units->f32,
                    .tf32_flops = cycles * units->tf32,
                    .half_flops = cycles * units->half,
                    .bytes = card.memory_clock_hz * kTransfersPerCycle * card.bus_bits / 8};
}

OpCost CostOf(const graph::Program& program, const ops::Op& op) {
  std::vector<const TensorDesc*> in, out;
  OpCost cost;
  const auto add = [&](const std::vector<std::vector<std::string>>& slots, auto& descs) {
    for (const auto& slot : slots) {
      if (slot.empty()) descs.push_back(nullptr);
      for (const std::string& name : slot) {
        descs.push_back(name.empty() ? nullptr : &program.FindVar(name)->desc);
        if (descs.back()) cost.bytes += static_cast<double>(descs.back()->bytes());
      }
    }
  };
  add(op.inputs, in);
  add(op.outputs, out);
  const ops::OpDef& def = *ops::FindOp(op.type);
  if (def.flops != nullptr) cost.flops = def.flops(ops::OpView(op, def, in, out));
  return cost;
}

double LeastSeconds(const graph::Program& program, const DevicePeak& peak, bool tf32) {
  double seconds = 0;
  for (const ops::Op& op : program.ops) {
    if (ops::FindOp(op.type)->is_comm) continue;
    const OpCost cost = CostOf(program, op);
    double flops = peak.f32_flops;
    if (cost.flops > 0 && IsHalf(program.FindVar(op.inputs[0][0])->desc.dtype)) {
      flops = peak.half_flops;
    } else if (tf32 && !op.type.starts_with("conv2d")) {
      flops = peak.tf32_flops;
    }
    seconds += std::max(cost.flops / flops, cost.bytes / peak.bytes);
  }
  return seconds;
}

}  // namespace tandem::exec
