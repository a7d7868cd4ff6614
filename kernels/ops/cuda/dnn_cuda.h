// Makes plans of cuDNN graphs for the current device, with a cache.
#pragma once

#include "kernels/ops/cuda/code_cache.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/cuda/dnn_graph.h"

namespace tandem::ops {

// Returns a key that names device and cuDNN version, for measurements made once per machine.
inline StatusOr<std::string> DnnMachine(const Place& place) {
  cudaDeviceProp device{};
  TD_RETURN_IF_ERROR(CheckCuda(cudaGetDeviceProperties(&device, place.index), "the device's name"));
  return absl::StrFormat("%s; %d multiprocessors; cuDNN %d", device.name,
                         device.multiProcessorCount, cudnnGetVersion());
}

// Makes plans of a graph for the device of the PrepareContext. `graph` must outlive this object.
// UNIMPLEMENTED: cuDNN can make no plan, for any reason; the caller then uses another kernel.
class DnnPlans {
 public:
  using Shared = std::shared_ptr<const DnnPlan>;

  DnnPlans(const DnnGraph& graph, const PrepareContext& ctx) : graph_(graph), ctx_(ctx) {}
  // Returns cuDNN's best plan that needs at most `workspace_max` bytes of workspace.
  StatusOr<Shared> Best(size_t workspace_max) const {
    return Find(absl::StrFormat("best within %d bytes", workspace_max),
                [&](const auto& device) { return graph_.MakePlan(device, workspace_max); });
  }
  StatusOr<Shared> Proposal(size_t number) const {
    return Find(absl::StrFormat("proposal %d", number),
                [&](const auto& device) { return graph_.MakeProposal(device, number); });
  }

 private:
  // Version of the cached plans. Increase the version if a change of Tandem produces different code
  // for the same key.
  static constexpr int kVersion = 2;

  template <typename Make>
  StatusOr<Shared> Find(const std::string& which, const Make& make) const {
    if (ctx_.device == nullptr) return Unimplemented("there is no CUDA device to compile for");
    const auto plan = FindFor(*ctx_.device, which, make);
    if (!plan.ok()) return Unimplemented("%s", std::string(plan.status().message()));
    return Shared(*plan);
  }

  template <typename Make>
  StatusOr<std::shared_ptr<DnnPlan>> FindFor(Device& device, const std::string& which,
                                             const Make& make) const {
    using Compiled = CodeCache::Compiled<DnnPlan>;
    TD_ASSIGN_OR_RETURN(const std::string machine, DnnMachine(device.place()));
    TD_ASSIGN_OR_RETURN(const DnnDescriptor kind,
                        DnnDeviceOf(static_cast<const CudaStream*>(device.stream())->dnn));
    int driver = 0;
    TD_RETURN_IF_ERROR(CheckCuda(cudaDriverGetVersion(&driver), "the driver's version"));
    const auto load = [&](const std::string& text) -> StatusOr<std::shared_ptr<DnnPlan>> {
      TD_ASSIGN_OR_RETURN(DnnPlan restored, DnnPlan::Restore(kind, text));
      return std::make_shared<DnnPlan>(std::move(restored));
    };
    const auto compile = [&]() -> StatusOr<Compiled> {
      TD_ASSIGN_OR_RETURN(DnnPlan made, make(kind));
      const StatusOr<std::string> text = made.text();
      return Compiled{std::make_shared<DnnPlan>(std::move(made)), text.ok() ? *text : ""};
    };
    CodeCache own;
    return (ctx_.code != nullptr ? *ctx_.code : own)
        .Get<DnnPlan>(
            absl::StrFormat("%s, CUDA %d, driver %d; version %d; %s:%s", machine,
                            cudnnGetCudartVersion(), driver, kVersion, which, graph_.key()),
            load, compile);
  }

  const DnnGraph& graph_;
  const PrepareContext& ctx_;
};

}  // namespace tandem::ops
