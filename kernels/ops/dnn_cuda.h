// cuDNN on a device.
#pragma once

#include "kernels/ops/code_cache.h"
#include "kernels/ops/cuda_launch.h"
#include "kernels/ops/dnn_graph.h"

namespace tandem {

// A device with this cuDNN, for what is measured once on it.
inline StatusOr<std::string> DnnMachine(const Place& place) {
  cudaDeviceProp device{};
  TD_RETURN_IF_ERROR(CheckCuda(cudaGetDeviceProperties(&device, place.index), "the device's name"));
  return absl::StrFormat("%s; %d multiprocessors; cuDNN %d", device.name,
                         device.multiProcessorCount, cudnnGetVersion());
}

// The plan of `graph` for the device that a kernel is prepared for. UNIMPLEMENTED, whatever the
// reason, where there is none: other kernels serve.
inline StatusOr<std::shared_ptr<const DnnPlan>> DnnPlanOf(const DnnGraph& graph,
                                                          size_t workspace_max,
                                                          const PrepareContext& ctx) {
  using Shared = std::shared_ptr<DnnPlan>;
  using Compiled = CodeCache::Compiled<DnnPlan>;
  if (ctx.device == nullptr) return Unimplemented("no CUDA device to compile for");
  const auto plan = [&]() -> StatusOr<Shared> {
    TD_ASSIGN_OR_RETURN(const std::string machine, DnnMachine(ctx.device->place()));
    const auto& stream = *static_cast<const CudaStream*>(ctx.device->stream());
    TD_ASSIGN_OR_RETURN(const DnnDescriptor device, DnnDeviceOf(stream.dnn));
    const auto load = [&](const std::string& text) -> StatusOr<Shared> {
      TD_ASSIGN_OR_RETURN(DnnPlan restored, DnnPlan::Restore(device, text));
      return std::make_shared<DnnPlan>(std::move(restored));
    };
    const auto compile = [&]() -> StatusOr<Compiled> {
      TD_ASSIGN_OR_RETURN(DnnPlan made, graph.MakePlan(device, workspace_max));
      const StatusOr<std::string> text = made.text();
      return Compiled{std::make_shared<DnnPlan>(std::move(made)), text.ok() ? *text : ""};
    };
    CodeCache own;
    return (ctx.code != nullptr ? *ctx.code : own)
        .Get<DnnPlan>(
            absl::StrFormat("%s; within %d bytes:%s", machine, workspace_max, graph.key()), load,
            compile);
  }();
  if (!plan.ok()) return Unimplemented("%s", std::string(plan.status().message()));
  return *plan;
}

}  // namespace tandem
