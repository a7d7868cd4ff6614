// Convolutions by cuDNN. 16-bit convolutions with channels last use cuDNN's graphs; other
// convolutions, and those that the graphs do not support, use single calls. Descriptors and plans
// are made when a kernel is prepared. Only algorithms that give the same bits each time and whose
// workspace fits are considered. cuDNN's heuristics choose among them, for single calls at the
// first run. Alternatively a search (kernels/ops/conv/conv_search.h) measures the algorithms and
// several plans of a graph on the device.
#pragma once

#include <optional>

#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_graph.h"
#include "kernels/ops/conv/conv_search.h"
#include "kernels/ops/cuda/dnn_cuda.h"

namespace tandem {

struct DnnConvDescriptors {
  OwnedDnn<cudnnTensorDescriptor_t> x, y;
  OwnedDnn<cudnnFilterDescriptor_t> w;
  OwnedDnn<cudnnConvolutionDescriptor_t> conv;
};

// ---- The three parts of x * w -> y: cuDNN uses different names but the same calls ---------------

// A part computes `out` from `a` and `b`: y from x and w, gx from w and gy, gw from x and gy.
struct DnnWork {
  cudnnHandle_t dnn;
  void* workspace;
  size_t bytes;  // of the workspace
};

inline constexpr float kDnnOne = 1.0f, kDnnZero = 0.0f;

struct DnnOutput {
  static constexpr const char* kName = "output";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  using Proposal = cudnnConvolutionFwdAlgoPerf_t;
  using Algo = decltype(Proposal::algo);

  static ConvGraph Graph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue& behind) {
    return ConvOutputGraph(s, type, behind);
  }
  static cudnnStatus_t Propose(cudnnHandle_t dnn, const DnnConvDescriptors& d, int room, int* count,
                               Proposal* proposals) {
    return cudnnGetConvolutionForwardAlgorithm_v7(dnn, d.x.get(), d.w.get(), d.conv.get(),
                                                  d.y.get(), room, count, proposals);
  }
  static cudnnStatus_t Workspace(cudnnHandle_t dnn, const DnnConvDescriptors& d, Algo algo,
                                 size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(dnn, d.x.get(), d.w.get(), d.conv.get(),
                                                   d.y.get(), algo, bytes);
  }
  static cudnnStatus_t Run(const DnnWork& work, const DnnConvDescriptors& d, Algo algo,
                           const void* x, const void* w, void* y) {
    return cudnnConvolutionForward(work.dnn, &kDnnOne, d.x.get(), x, d.w.get(), w, d.conv.get(),
                                   algo, work.workspace, work.bytes, &kDnnZero, d.y.get(), y);
  }
};

struct DnnInputGrad {
  static constexpr const char* kName = "input's gradient";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  using Proposal = cudnnConvolutionBwdDataAlgoPerf_t;
  using Algo = decltype(Proposal::algo);

  static ConvGraph Graph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue&) {
    return ConvInputGradGraph(s, type);
  }
  static cudnnStatus_t Propose(cudnnHandle_t dnn, const DnnConvDescriptors& d, int room, int* count,
                               Proposal* proposals) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, d.w.get(), d.y.get(), d.conv.get(),
                                                       d.x.get(), room, count, proposals);
  }
  static cudnnStatus_t Workspace(cudnnHandle_t dnn, const DnnConvDescriptors& d, Algo algo,
                                 size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, d.w.get(), d.y.get(), d.conv.get(),
                                                        d.x.get(), algo, bytes);
  }
  static cudnnStatus_t Run(const DnnWork& work, const DnnConvDescriptors& d, Algo algo,
                           const void* w, const void* gy, void* gx) {
    return cudnnConvolutionBackwardData(work.dnn, &kDnnOne, d.w.get(), w, d.y.get(), gy,
                                        d.conv.get(), algo, work.workspace, work.bytes, &kDnnZero,
                                        d.x.get(), gx);
  }
};

struct DnnFilterGrad {
  static constexpr const char* kName = "filter's gradient";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  using Proposal = cudnnConvolutionBwdFilterAlgoPerf_t;
  using Algo = decltype(Proposal::algo);

  static ConvGraph Graph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue&) {
    return ConvFilterGradGraph(s, type);
  }
  static cudnnStatus_t Propose(cudnnHandle_t dnn, const DnnConvDescriptors& d, int room, int* count,
                               Proposal* proposals) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, d.x.get(), d.y.get(), d.conv.get(),
                                                         d.w.get(), room, count, proposals);
  }
  static cudnnStatus_t Workspace(cudnnHandle_t dnn, const DnnConvDescriptors& d, Algo algo,
                                 size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn, d.x.get(), d.y.get(), d.conv.get(),
                                                          d.w.get(), algo, bytes);
  }
  static cudnnStatus_t Run(const DnnWork& work, const DnnConvDescriptors& d, Algo algo,
                           const void* x, const void* gy, void* gw) {
    return cudnnConvolutionBackwardFilter(work.dnn, &kDnnOne, d.x.get(), x, d.y.get(), gy,
                                          d.conv.get(), algo, work.workspace, work.bytes, &kDnnZero,
                                          d.w.get(), gw);
  }
};

// ---- One part with its algorithm ----------------------------------------------------------------

// The parts that an operator computes.
struct ConvParts {
  bool output = false, input_grad = false, filter_grad = false;
  ConvEpilogue behind;  // epilogue of the output
};

// The input of Prepare.
struct DnnConvProblem {
  const OpView& view;
  const ConvShape& s;
  const PrepareContext& ctx;
  const DnnConvDescriptors& d;
  bool graphs;  // cuDNN's graphs may be used

  // Workspace for a choice at the first run. It is reserved before the choice.
  size_t workspace_by_rule() const { return std::min(ctx.conv_scratch_max, size_t{256} << 20); }
};

struct ConvPlan {
  ConvGraph ids;  // tensor ids
  std::shared_ptr<const DnnPlan> plan;

  Status Run(const DnnWork& work, const void* a, const void* b, const float* bias,
             void* out) const {
    const DnnPlan::Given given[] = {
        {ids.a, a}, {ids.b, b}, {ids.out, out}, {ids.bias.value_or(-1), bias}};
    const size_t count = ids.bias.has_value() ? 4 : 3;
    return plan->Run(work.dnn, std::span(given, count), work.workspace);
  }
};

template <typename Part>
class DnnConvPart {
 public:
  // Chooses an algorithm, unless the first run does. Uses plans that include the epilogue if they
  // exist, else plans without it. UNIMPLEMENTED: a search found no algorithm.
  Status Prepare(const DnnConvProblem& p, const ConvEpilogue& behind = {});
  // Runs with the workspace in `work`. UNIMPLEMENTED: cuDNN does not support the case; no work was
  // started. `bias`: used if fused() is true and there is a bias.
  Status Run(const DnnWork& work, const DnnConvDescriptors& d, const void* a, const void* b,
             void* out, const float* bias = nullptr);
  bool fused() const { return fused_; }  // Run includes the epilogue
  size_t workspace() const { return workspace_; }

 private:
  struct Algorithm {
    typename Part::Algo algo;
    size_t workspace;              // bytes
    std::optional<ConvPlan> plan;  // used instead of `algo`
    size_t number = 0;             // number of the plan
    std::string name() const {
      if (plan.has_value()) return PlanName(number);
      return absl::StrFormat("algorithm%d", static_cast<int>(algo));
    }
    Status Run(const DnnWork& work, const DnnConvDescriptors& d, const void* a, const void* b,
               void* out, const float* bias) const {
      if (plan.has_value()) return plan->Run(work, a, b, bias, out);
      return DnnStatus(Part::Run(work, d, algo, a, b, out), Part::kName);
    }
  };

  static std::string PlanName(size_t number) { return absl::StrFormat("graph%d", number); }
  // Best first, by cuDNN's heuristics.
  static StatusOr<std::vector<Algorithm>> Proposals(cudnnHandle_t dnn, const DnnConvDescriptors& d);
  static StatusOr<std::vector<ConvMeasurement>> Measure(const std::vector<Algorithm>& algorithms,
                                                        const DnnConvProblem& p);
  // OK without a choice: the first run chooses. UNIMPLEMENTED: a search found no algorithm, or none
  // includes the epilogue.
  Status Choose(const DnnConvProblem& p, const ConvEpilogue& behind);
  // OK without a choice: the fastest known algorithm is no longer available.
  Status Search(const DnnConvProblem& p, const ConvEpilogue& behind);

  std::optional<Algorithm> chosen_;
  bool fused_ = false;
  size_t workspace_ = 0;
};

template <typename Part>
auto DnnConvPart<Part>::Proposals(cudnnHandle_t dnn, const DnnConvDescriptors& d)
    -> StatusOr<std::vector<Algorithm>> {
  constexpr int kRoom = 2 * Part::kAlgorithms;  // some are listed with and without tensor cores
  typename Part::Proposal proposals[kRoom];
  int count = 0;
  TD_RETURN_IF_ERROR(DnnStatus(Part::Propose(dnn, d, kRoom, &count, proposals), "choosing"));
  std::vector<Algorithm> all;
  for (int i = 0; i < count; ++i) {
    const auto& p = proposals[i];
    const bool serves =
        p.status == CUDNN_STATUS_SUCCESS && p.determinism == CUDNN_DETERMINISTIC &&
        std::none_of(all.begin(), all.end(), [&](const auto& a) { return a.algo == p.algo; });
    // p.memory may be for another math type than the descriptors' type.
    size_t bytes = 0;
    if (serves && Part::Workspace(dnn, d, p.algo, &bytes) == CUDNN_STATUS_SUCCESS) {
      all.push_back({p.algo, bytes, std::nullopt});
    }
  }
  return all;
}

// Skips algorithms that fail or for which the device has no memory.
template <typename Part>
StatusOr<std::vector<ConvMeasurement>> DnnConvPart<Part>::Measure(
    const std::vector<Algorithm>& algorithms, const DnnConvProblem& p) {
  constexpr int kLaunches = 10;  // per measured run; makes waiting for the device negligible
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
    if (!launch(1).ok()) continue;  // also loads the code
    TD_ASSIGN_OR_RETURN(const double us,
                        MeasureRuns([&] { return launch(kLaunches); }, best * kLaunches));
    all.push_back({algorithm.name(), std::max(0.1, us / kLaunches), algorithm.workspace});
    best = std::min(best, all.back().us);
  }
  return all;
}

template <typename Part>
Status DnnConvPart<Part>::Search(const DnnConvProblem& p, const ConvEpilogue& behind) {
  const PrepareContext& ctx = p.ctx;
  if (ctx.device == nullptr)
    return Unimplemented("there is no CUDA device to measure algorithms on");
  std::vector<Algorithm> algorithms;
  if (behind.nothing()) {  // single calls support no epilogue
    auto calls = Proposals(static_cast<const CudaStream*>(ctx.device->stream())->dnn, p.d);
    if (calls.ok()) algorithms = *std::move(calls);
  }
  const ConvGraph graph = Part::Graph(p.s, DnnTypeOf(p.view.in(0).dtype), behind);
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
  const std::string problem =
      absl::StrFormat("%s%s of %s", Part::kName, behind.nothing() ? "" : " and what is behind",
                      ConvProblem(p.view));
  TD_ASSIGN_OR_RETURN(const std::string fastest,
                      ctx.conv_search->Fastest(machine, problem, ctx.conv_scratch_max, measure));
  for (size_t n = 0; n < DnnGraph::kProposals; ++n) {  // a known result needed no plan
    if (PlanName(n) == fastest) add_plan(n);
  }
  for (const Algorithm& algorithm : algorithms) {
    if (algorithm.name() == fastest) chosen_ = algorithm;
  }
  return OkStatus();
}

template <typename Part>
Status DnnConvPart<Part>::Choose(const DnnConvProblem& p, const ConvEpilogue& behind) {
  if (!p.graphs && !behind.nothing())
    return Unimplemented("this kernel cannot fuse bias or relu into the convolution");
  if (p.ctx.conv_search != nullptr) {
    TD_RETURN_IF_ERROR(Search(p, behind));
    if (chosen_.has_value()) return OkStatus();
  }
  if (!p.graphs) return OkStatus();
  ConvGraph graph = Part::Graph(p.s, DnnTypeOf(p.view.in(0).dtype), behind);
  auto plan = DnnPlans(graph.graph, p.ctx).Best(p.workspace_by_rule());
  if (!plan.ok()) return behind.nothing() ? OkStatus() : plan.status();
  const size_t workspace = (*plan)->workspace();
  chosen_ = Algorithm{{}, workspace, ConvPlan{std::move(graph), *std::move(plan)}};
  return OkStatus();
}

template <typename Part>
Status DnnConvPart<Part>::Prepare(const DnnConvProblem& p, const ConvEpilogue& behind) {
  fused_ = !behind.nothing() && Choose(p, behind).ok();
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

// ---- The whole convolution ----------------------------------------------------------------------

// Transposes filters for cuDNN: [k, c, taps] here, [k, taps, c] in cuDNN.
struct FilterTransposer {
  int64_t filters = 0, channels = 0, taps = 0;
  size_t element_bytes = 0;

  bool turns() const { return filters > 0; }
  size_t bytes() const { return static_cast<size_t>(filters * channels * taps) * element_bytes; }
  // Converts from our order to cuDNN's; `back`: from cuDNN's order to ours.
  Status Turn(const KernelArgs& args, const void* from, void* to, bool back) const {
    return element_bytes == sizeof(uint16_t) ? TurnAs<uint16_t>(args, from, to, back)
                                             : TurnAs<uint32_t>(args, from, to, back);
  }
  template <typename Bits>
  Status TurnAs(const KernelArgs& args, const void* from, void* to, bool back) const {
    const auto* in = static_cast<const Bits*>(from);
    auto* out = static_cast<Bits*>(to);
    const int64_t rows = back ? channels : taps, columns = back ? taps : channels;
    return ForEach(args, filters * rows * columns, [=] __device__(int64_t i) {
      const int64_t row = Quotient(i, columns), filter = Quotient(row, rows);
      out[i] = in[(filter * columns + i - row * columns) * rows + row - filter * rows];
    });
  }
};

// Like PlainConvolution, but all tensors have one layout. With channels last, cuDNN needs filters
// with channels last too; they are transposed in scratch memory.
class DnnConvolution {
 public:
  static StatusOr<DnnConvolution> Make(const OpView& view, const ConvShape& s,
                                       const PrepareContext& ctx, const ConvParts& parts);

  DnnConvolution() = default;
  size_t workspace() const { return turned_at() + filter_.bytes(); }
  Status Forward(const KernelArgs& args, const void* x, const void* w, void* y,
                 const float* bias = nullptr) {
    TD_ASSIGN_OR_RETURN(w, ForDnn(args, w));
    return output_.Run(Work(args), d_, x, w, y, bias);
  }
  bool fused() const { return output_.fused(); }  // Forward includes the epilogue of the output
  Status Input(const KernelArgs& args, const void*, const void* w, const void* gy, void* gx) {
    TD_ASSIGN_OR_RETURN(w, ForDnn(args, w));
    return input_grad_.Run(Work(args), d_, w, gy, gx);
  }
  Status Filter(const KernelArgs& args, const void* x, const void* gy, void* gw) {
    if (!filter_.turns()) return filter_grad_.Run(Work(args), d_, x, gy, gw);
    TD_RETURN_IF_ERROR(filter_grad_.Run(Work(args), d_, x, gy, Turned(args)));
    return filter_.Turn(args, Turned(args), gw, /*back=*/true);
  }

 private:
  size_t turned_at() const {  // offset in scratch, after cuDNN's workspace
    return (workspace_ + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
  }
  void* Turned(const KernelArgs& args) const {
    return static_cast<std::byte*>(args.scratch) + turned_at();
  }
  StatusOr<const void*> ForDnn(const KernelArgs& args, const void* w) const {
    if (!filter_.turns()) return w;
    TD_RETURN_IF_ERROR(filter_.Turn(args, w, Turned(args), /*back=*/false));
    return Turned(args);
  }
  DnnWork Work(const KernelArgs& args) const {
    return {StreamOf(args).dnn, args.scratch, workspace_};
  }
  Status Describe(const ConvShape& s, DType dtype, cudnnTensorFormat_t format);

  size_t workspace_ = 0;  // cuDNN's workspace in bytes
  FilterTransposer filter_;
  DnnConvDescriptors d_;
  DnnConvPart<DnnOutput> output_;
  DnnConvPart<DnnInputGrad> input_grad_;
  DnnConvPart<DnnFilterGrad> filter_grad_;
};

inline StatusOr<DnnConvolution> DnnConvolution::Make(const OpView& view, const ConvShape& s,
                                                     const PrepareContext& ctx,
                                                     const ConvParts& parts) {
  if (s.relu_first)
    return Unimplemented("this kernel does not support fuse_relu_before_depthwise_conv");
  const bool last = s.in_layout == ImageLayout::kLast && s.out_layout == ImageLayout::kLast;
  if (!s.plain() && !last)
    return Unimplemented("this kernel does not support different layouts of Input and Output");
  DnnConvolution c;
  const DType dtype = view.in(0).dtype;
  TD_RETURN_IF_ERROR(c.Describe(s, dtype, last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW));
  const int64_t channels = s.in_c / s.groups, taps = s.kernel[0] * s.kernel[1];
  if (last && channels > 1 && taps > 1) c.filter_ = {s.out_c, channels, taps, SizeOf(dtype)};
  const DnnConvProblem p{view, s, ctx, c.d_, last && dtype != DType::kF32};
  if (parts.output) TD_RETURN_IF_ERROR(c.output_.Prepare(p, parts.behind));
  if (parts.input_grad) TD_RETURN_IF_ERROR(c.input_grad_.Prepare(p));
  if (parts.filter_grad) TD_RETURN_IF_ERROR(c.filter_grad_.Prepare(p));
  c.workspace_ =
      std::max({c.output_.workspace(), c.input_grad_.workspace(), c.filter_grad_.workspace()});
  return c;
}

inline Status DnnConvolution::Describe(const ConvShape& s, DType dtype,
                                       cudnnTensorFormat_t format) {
  TD_ASSIGN_OR_RETURN(d_.x, MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  TD_ASSIGN_OR_RETURN(d_.y, MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  TD_ASSIGN_OR_RETURN(d_.w, MakeDnn(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor));
  TD_ASSIGN_OR_RETURN(d_.conv,
                      MakeDnn(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor));
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  const cudnnDataType_t type = DnnTypeOf(dtype);
  TD_RETURN_IF_ERROR(DnnStatus(cudnnSetTensor4dDescriptor(d_.x.get(), format, type, i(s.batch),
                                                          i(s.in_c), i(s.in[0]), i(s.in[1])),
                               "input"));
  TD_RETURN_IF_ERROR(DnnStatus(cudnnSetTensor4dDescriptor(d_.y.get(), format, type, i(s.batch),
                                                          i(s.out_c), i(s.out[0]), i(s.out[1])),
                               "output"));
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnSetFilter4dDescriptor(d_.w.get(), type, format, i(s.out_c),
                                           i(s.in_c / s.groups), i(s.kernel[0]), i(s.kernel[1])),
                "filter"));
  TD_RETURN_IF_ERROR(DnnStatus(
      cudnnSetConvolution2dDescriptor(d_.conv.get(), i(s.pad[0]), i(s.pad[1]), i(s.stride[0]),
                                      i(s.stride[1]), i(s.dilation[0]), i(s.dilation[1]),
                                      CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "convolution"));
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnSetConvolutionGroupCount(d_.conv.get(), i(s.groups)), "groups"));
  // f32 products must not use TF32.
  const auto math = dtype == DType::kF32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  return DnnStatus(cudnnSetConvolutionMathType(d_.conv.get(), math), "math type");
}

}  // namespace tandem
