// One product of a convolution by cuDNN, with its algorithm. 16-bit convolutions with channels last
// use cuDNN's graphs. Other convolutions, and convolutions that the graphs do not support, call
// cuDNN's convolution functions. An algorithm is considered only if it gives the same bits in each
// run and its workspace fits. cuDNN's heuristics choose among these algorithms: when the kernel is
// prepared if a graph is used, otherwise at the first run. Alternatively, a search
// (kernels/ops/conv/conv_search.h) measures the algorithms and several plans of a graph on the
// device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_graph.h"
#include "kernels/ops/conv/conv_search.h"
#include "kernels/ops/core/kernel_settings.h"
#include "kernels/ops/cuda/dnn_cuda.h"

namespace tandem::ops {

struct DnnConvDescriptors {
  OwnedDnn<cudnnTensorDescriptor_t> x, y;
  OwnedDnn<cudnnFilterDescriptor_t> w;
  OwnedDnn<cudnnConvolutionDescriptor_t> conv;
};

// ---- The three products of x * w -> y: the same calls under different names in cuDNN ------------

// The handle and the workspace for one product. Each product computes `out` from `a` and `b`: y
// from x and w, gx from w and gy, or gw from x and gy.
struct DnnWork {
  cudnnHandle_t dnn;
  void* workspace;
  size_t bytes;  // size of the workspace in bytes
};

inline constexpr float kDnnOne = 1.0f, kDnnZero = 0.0f;

struct DnnOutput {
  static constexpr const char* kName = "output";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  using Proposal = cudnnConvolutionFwdAlgoPerf_t;
  using Algo = decltype(Proposal::algo);

  static ConvGraph Graph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue& epilogue) {
    return ConvOutputGraph(s, type, epilogue);
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

// ---- One product with its algorithm -------------------------------------------------------------

// The convolution and the settings for which DnnConvPart::Prepare chooses an algorithm.
struct DnnConvProblem {
  const OpView& view;
  const ConvShape& s;
  const PrepareContext& ctx;
  const DnnConvDescriptors& d;
  bool graphs;  // true: cuDNN's graphs may be used

  // Returns the workspace bytes that are reserved if the first run will choose the algorithm.
  size_t workspace_by_rule() const {
    return std::min(ctx.settings.conv.scratch_max, size_t{256} << 20);
  }
};

struct ConvPlan {
  ConvGraph ids;  // ids of the tensors in the graph
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
  // Chooses an algorithm, or leaves the choice to the first run. Prefers plans that include the
  // epilogue to plans without it. UNIMPLEMENTED: a search found no algorithm.
  Status Prepare(const DnnConvProblem& p, const ConvEpilogue& epilogue = {});
  // Runs the product with the workspace in `work`. `bias` is used if fused() is true and the
  // epilogue has a bias. UNIMPLEMENTED: cuDNN does not support the case; no work was started.
  Status Run(const DnnWork& work, const DnnConvDescriptors& d, const void* a, const void* b,
             void* out, const float* bias = nullptr);
  bool fused() const { return fused_; }  // true if Run applies the epilogue
  size_t workspace() const { return workspace_; }

 private:
  struct Algorithm {
    typename Part::Algo algo;
    size_t workspace;              // size of the workspace in bytes
    std::optional<ConvPlan> plan;  // if set, Run uses this plan instead of `algo`
    size_t number = 0;             // number of the plan (DnnGraph::MakeProposal), a part of name()
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
  // Returns the algorithms that cuDNN proposes, the best one first according to its heuristics.
  static StatusOr<std::vector<Algorithm>> Proposals(cudnnHandle_t dnn, const DnnConvDescriptors& d);
  static StatusOr<std::vector<ConvMeasurement>> Measure(const std::vector<Algorithm>& algorithms,
                                                        const DnnConvProblem& p);
  // Sets chosen_, or returns OK without setting chosen_, so that the first run chooses.
  // UNIMPLEMENTED: a search found no algorithm, or no algorithm includes the epilogue.
  Status Choose(const DnnConvProblem& p, const ConvEpilogue& epilogue);
  // Sets chosen_ to the fastest measured algorithm. Returns OK without setting chosen_ if this
  // algorithm is no longer available.
  Status Search(const DnnConvProblem& p, const ConvEpilogue& epilogue);

  std::optional<Algorithm> chosen_;
  bool fused_ = false;
  size_t workspace_ = 0;
};

extern template class DnnConvPart<DnnOutput>;
extern template class DnnConvPart<DnnInputGrad>;
extern template class DnnConvPart<DnnFilterGrad>;

}  // namespace tandem::ops
