#include "kernels/ops/conv/conv_dnn_part_cuda.h"

#include <algorithm>
#include <limits>

namespace tandem::ops {

template <typename Part>
auto DnnConvPart<Part>::Proposals(cudnnHandle_t dnn, const DnnConvDescriptors& d)
    -> StatusOr<std::vector<Algorithm>> {
  // The array has space for each algorithm twice, because cuDNN lists some algorithms both with and
  // without tensor cores.
  constexpr int kRoom = 2 * Part::kAlgorithms;
  typename Part::Proposal proposals[kRoom];
  int count = 0;
  TD_RETURN_IF_ERROR(DnnStatus(Part::Propose(dnn, d, kRoom, &count, proposals), "choosing"));
  std::vector<Algorithm> all;
  for (int i = 0; i < count; ++i) {
    const auto& p = proposals[i];
    const bool serves =
        p.status == CUDNN_STATUS_SUCCESS && p.determinism == CUDNN_DETERMINISTIC &&
        std::none_of(all.begin(), all.end(), [&](const auto& a) { return a.algo == p.algo; });
    // Get the size from cuDNN, because p.memory may be the size for another math type.
    size_t bytes = 0;
    if (serves && Part::Workspace(dnn, d, p.algo, &bytes) == CUDNN_STATUS_SUCCESS) {
      all.push_back({p.algo, bytes, std::nullopt});
    }
  }
  return all;
}

// Measures the algorithms. Skips algorithms that fail or need more memory than the device has.
template <typename Part>
StatusOr<std::vector<ConvMeasurement>> DnnConvPart<Part>::Measure(
    const std::vector<Algorithm>& algorithms, const DnnConvProblem& p) {
  // Launches per measured run. With this number of launches, the time of the synchronisation is
  // negligible.
  constexpr int kLaunches = 10;
  const ConvShape& s = p.s;
  Device& device = *p.ctx.device;
  const auto make = [&](int64_t elements) {
    return device.Allocate(static_cast<size_t>(elements) * SizeOf(p.view.in(0).dtype));
  };
  TD_ASSIGN_OR_RETURN(const Buffer x, make(s.batch * s.in_c * s.in_plane()));
  TD_ASSIGN_OR_RETURN(const Buffer y, make(s.batch * s.out_c * s.out_plane()));
  TD_ASSIGN_OR_RETURN(const Buffer w, make(s.out_c * s.taps()));
  constexpr bool kMakesY = std::is_same_v<Part, DnnOutput>;
  constexpr bool kMakesX = std::is_same_v<Part, DnnInputGrad>;
  void* const out = kMakesY ? y.get() : kMakesX ? x.get() : w.get();
  const void* const a = kMakesX ? w.get() : x.get();
  const void* const b = kMakesY ? w.get() : y.get();
  TD_ASSIGN_OR_RETURN(const Buffer bias,
                      device.Allocate(static_cast<size_t>(s.out_c) * sizeof(float)));
  const auto& stream = *static_cast<const CudaStream*>(device.stream());
  std::vector<ConvMeasurement> all;
  double best = std::numeric_limits<double>::infinity();
  for (const Algorithm& algorithm : algorithms) {
    const auto workspace = device.Allocate(algorithm.workspace);
    if (!workspace.ok()) continue;
    const DnnWork work{stream.dnn, workspace->get(), algorithm.workspace};
    const auto launch = [&](int times) -> Status {
      for (int i = 0; i < times; ++i) {
        TD_RETURN_IF_ERROR(
            algorithm.Run(work, p.d, a, b, out, reinterpret_cast<const float*>(bias.get())));
      }
      return device.Synchronize();
    };
    if (!launch(1).ok()) continue;  // the first launch also loads the code
    TD_ASSIGN_OR_RETURN(const double us,
                        MeasureRuns([&] { return launch(kLaunches); }, best * kLaunches));
    all.push_back({algorithm.name(), std::max(0.1, us / kLaunches), algorithm.workspace});
    best = std::min(best, all.back().us);
  }
  return all;
}

template <typename Part>
Status DnnConvPart<Part>::Search(const DnnConvProblem& p, const ConvEpilogue& epilogue) {
  const PrepareContext& ctx = p.ctx;
  if (ctx.device == nullptr)
    return Unimplemented("there is no CUDA device to measure algorithms on");
  std::vector<Algorithm> algorithms;
  if (epilogue.empty()) {  // calls without a graph do not support an epilogue
    auto calls = Proposals(static_cast<const CudaStream*>(ctx.device->stream())->dnn, p.d);
    if (calls.ok()) algorithms = *std::move(calls);
  }
  const ConvGraph graph = Part::Graph(p.s, DnnTypeOf(p.view.in(0).dtype), epilogue);
  const DnnPlans plans(graph.graph, ctx);
  const auto add_plan = [&](size_t number) {
    auto plan = plans.Proposal(number);
    if (!plan.ok()) return;
    algorithms.push_back({{}, (*plan)->workspace(), ConvPlan{graph, *plan}, number});
  };
  const auto measure = [&] {
    const size_t calls = algorithms.size();
    for (size_t n = 0; p.graphs && n < DnnGraph::kProposals; ++n) {
      if (n == DnnGraph::kFallback && algorithms.size() > calls) break;
      add_plan(n);
    }
    return Measure(algorithms, p);
  };
  TD_ASSIGN_OR_RETURN(const std::string machine, DnnMachine(ctx.device->place()));
  const std::string problem = absl::StrFormat(
      "%s%s of %s", Part::kName, epilogue.empty() ? "" : " with its epilogue", ConvProblem(p.view));
  TD_ASSIGN_OR_RETURN(
      const std::string fastest,
      ctx.settings.conv.search->Fastest(machine, problem, ctx.settings.conv.scratch_max, measure));
  // If the search already knew the fastest algorithm, it did not call `measure`. The plan of this
  // algorithm does not exist in that case.
  for (size_t n = 0; n < DnnGraph::kProposals; ++n) {
    if (PlanName(n) == fastest) add_plan(n);
  }
  for (const Algorithm& algorithm : algorithms) {
    if (algorithm.name() == fastest) chosen_ = algorithm;
  }
  return OkStatus();
}

template <typename Part>
Status DnnConvPart<Part>::Choose(const DnnConvProblem& p, const ConvEpilogue& epilogue) {
  if (!p.graphs && !epilogue.empty())
    return Unimplemented("this kernel cannot fuse bias or relu into the convolution");
  if (p.ctx.settings.conv.search != nullptr) {
    TD_RETURN_IF_ERROR(Search(p, epilogue));
    if (chosen_.has_value()) return OkStatus();
  }
  if (!p.graphs) return OkStatus();
  ConvGraph graph = Part::Graph(p.s, DnnTypeOf(p.view.in(0).dtype), epilogue);
  auto plan = DnnPlans(graph.graph, p.ctx).Best(p.workspace_by_rule());
  if (!plan.ok()) return epilogue.empty() ? OkStatus() : plan.status();
  const size_t workspace = (*plan)->workspace();
  chosen_ = Algorithm{{}, workspace, ConvPlan{std::move(graph), *std::move(plan)}};
  return OkStatus();
}

template <typename Part>
Status DnnConvPart<Part>::Prepare(const DnnConvProblem& p, const ConvEpilogue& epilogue) {
  fused_ = !epilogue.empty() && Choose(p, epilogue).ok();
  if (!fused_) TD_RETURN_IF_ERROR(Choose(p, {}));
  workspace_ = chosen_.has_value() ? chosen_->workspace : p.workspace_by_rule();
  return OkStatus();
}

template <typename Part>
Status DnnConvPart<Part>::Run(const DnnWork& work, const DnnConvDescriptors& d, const void* a,
                              const void* b, void* out, const float* bias) {
  if (!chosen_.has_value()) {
    TD_ASSIGN_OR_RETURN(const std::vector<Algorithm> algorithms, Proposals(work.dnn, d));
    for (const Algorithm& algorithm : algorithms) {
      if (chosen_.has_value() || algorithm.workspace > work.bytes) continue;
      chosen_ = algorithm;
    }
  }
  if (!chosen_.has_value()) {
    return Unimplemented(
        "cuDNN has no algorithm for this convolution with at most %d bytes of workspace",
        work.bytes);
  }
  return chosen_->Run(work, d, a, b, out, bias);
}

template class DnnConvPart<DnnOutput>;
template class DnnConvPart<DnnInputGrad>;
template class DnnConvPart<DnnFilterGrad>;

}  // namespace tandem::ops
