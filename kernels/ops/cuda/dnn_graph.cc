#include "kernels/ops/cuda/dnn_graph.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace tandem::ops {

namespace {

template <typename T>
constexpr cudnnBackendAttributeType_t kTypeOf = CUDNN_TYPE_INT64;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<bool> = CUDNN_TYPE_BOOLEAN;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<char> = CUDNN_TYPE_CHAR;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<float> = CUDNN_TYPE_FLOAT;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnNanPropagation_t> = CUDNN_TYPE_NAN_PROPOGATION;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnBackendNumericalNote_t> =
    CUDNN_TYPE_NUMERICAL_NOTE;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnBackendNormMode_t> = CUDNN_TYPE_NORM_MODE;
template <>
constexpr cudnnBackendAttributeType_t kTypeOf<cudnnBackendNormFwdPhase_t> =
    CUDNN_TYPE_NORM_FWD_PHASE;
template <>  // for descriptors; for other addresses, the caller names the type
constexpr cudnnBackendAttributeType_t kTypeOf<void*> = CUDNN_TYPE_BACKEND_DESCRIPTOR;

StatusOr<DnnDescriptor> Create(cudnnBackendDescriptorType_t type, const char* what) {
  cudnnBackendDescriptor_t made = nullptr;
  TD_RETURN_IF_ERROR(DnnStatus(cudnnBackendCreateDescriptor(type, &made), what));
  return DnnDescriptor(made, cudnnBackendDestroyDescriptor);
}

}  // namespace

// Fills a cuDNN descriptor. The first error is stored, and Finalize returns it.
class DnnGraph::Builder {
 public:
  Builder(cudnnBackendDescriptorType_t type, const char* what) : what_(what) {
    auto made = Create(type, what);
    status_ = made.status();
    if (made.ok()) made_ = *std::move(made);
  }

  template <typename T>
  Builder& Set(cudnnBackendAttributeName_t name, std::span<const T> values,
               cudnnBackendAttributeType_t type = kTypeOf<T>) {
    if (!status_.ok()) return *this;
    const auto count = static_cast<int64_t>(values.size());
    status_ =
        DnnStatus(cudnnBackendSetAttribute(made_.get(), name, type, count, values.data()), what_);
    return *this;
  }
  template <typename T>
  Builder& Set(cudnnBackendAttributeName_t name, const T& value,
               cudnnBackendAttributeType_t type = kTypeOf<T>) {
    return Set(name, std::span<const T>(&value, 1), type);
  }
  StatusOr<DnnDescriptor> Finalize() {
    TD_RETURN_IF_ERROR(status_);
    TD_RETURN_IF_ERROR(DnnStatus(cudnnBackendFinalize(made_.get()), what_));
    return made_;
  }

 private:
  const char* const what_;
  Status status_;
  DnnDescriptor made_;
};

// ---- Tensors and operations ---------------------------------------------------------------------

DnnGraph::Id DnnGraph::AddTensor(cudnnDataType_t type, const Dims& dims, bool between,
                                 bool number) {
  const auto id = static_cast<Id>(tensors_.size());
  const auto [n, c, h, w] = dims;
  const Dims strides = {c * h * w, 1, w * c, c};
  Builder tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id + 1)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(dims))
      .Set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides))
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, between)
      .Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, number);
  Keep(tensor.Finalize(), tensors_);
  absl::StrAppend(&key_, between ? " between " : " ", static_cast<int>(type), "[",
                  absl::StrJoin(dims, ","), "]");
  return id;
}

DnnGraph::Id DnnGraph::Tensor(cudnnDataType_t type, const Dims& dims) {
  return AddTensor(type, dims, false, false);
}
DnnGraph::Id DnnGraph::Between(cudnnDataType_t type, const Dims& dims) {
  return AddTensor(type, dims, true, false);
}
DnnGraph::Id DnnGraph::Number() { return AddTensor(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, false, true); }

void* DnnGraph::Keep(StatusOr<DnnDescriptor> made, std::vector<DnnDescriptor>& where) {
  if (status_.ok()) status_ = made.status();
  where.push_back(made.ok() ? *std::move(made) : nullptr);
  return where.back().get();
}

void DnnGraph::Operate(const char* what, Builder operation, const Slots& slots) {
  absl::StrAppend(&key_, " ", what);
  for (const auto& [name, id] : slots) {
    operation.Set(name, tensors_[static_cast<size_t>(id)].get());
    absl::StrAppend(&key_, ":", id);
  }
  Keep(operation.Finalize(), operations_);
}

struct DnnGraph::ConvolutionKind {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t part, alpha, beta;
};

DnnGraph::Builder DnnGraph::ConvolutionOperation(const ConvolutionKind& kind,
                                                 const Window& window) {
  const auto pair = [](const std::array<int64_t, 2>& p) { return std::span<const int64_t>(p); };
  Builder part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution");
  part.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, pair(window.stride))
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pair(window.pad))
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pair(window.pad))
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, pair(window.dilation));
  for (const auto& p : {window.stride, window.pad, window.dilation}) {
    absl::StrAppend(&key_, " ", p[0], "x", p[1]);
  }
  Builder operation(kind.type, "convolution");
  operation.Set(kind.part, Keep(part.Finalize(), parts_))
      .Set(kind.alpha, 1.0f)
      .Set(kind.beta, 0.0f);
  return operation;
}

void DnnGraph::Convolution(Id x, Id w, Id y, const Window& window) {
  const ConvolutionKind kind = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  Operate("convolution", ConvolutionOperation(kind, window),
          {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y}});
}

void DnnGraph::ConvolutionInputGrad(Id w, Id gy, Id gx, const Window& window) {
  const ConvolutionKind kind = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  Operate("input's gradient", ConvolutionOperation(kind, window),
          {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, gy},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, gx}});
}

void DnnGraph::ConvolutionFilterGrad(Id x, Id gy, Id gw, const Window& window) {
  const ConvolutionKind kind = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  Operate("filter's gradient", ConvolutionOperation(kind, window),
          {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, gy},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, gw}});
}

DnnGraph::Builder DnnGraph::PointwiseOperation(cudnnPointwiseMode_t mode) {
  absl::StrAppend(&key_, " mode ", static_cast<int>(mode));
  Builder part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise");
  part.Set(CUDNN_ATTR_POINTWISE_MODE, mode).Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  // This attribute is deprecated, but it is necessary for NaN to stay NaN.
  if (mode == CUDNN_POINTWISE_RELU_FWD) {
    part.Set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
  }
  Builder operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise");
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, Keep(part.Finalize(), parts_));
  return operation;
}

void DnnGraph::Pointwise(cudnnPointwiseMode_t mode, Id a, Id b, Id y) {
  Operate("pointwise", PointwiseOperation(mode),
          {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a},
           {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
           {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
}

void DnnGraph::Relu(Id x, Id y) {
  Operate("pointwise", PointwiseOperation(CUDNN_POINTWISE_RELU_FWD),
          {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x}, {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
}

void DnnGraph::BatchNorm(const BatchNormTensors& t) {
  Builder operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, "batch normalisation");
  operation.Set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_BATCH_NORM)
      .Set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING);
  Operate("batch_norm", std::move(operation),
          {{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, t.x},
           {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, t.scale},
           {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, t.bias},
           {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, t.epsilon},
           {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, t.y},
           {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, t.saved_mean},
           {CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, t.saved_inv}});
}

void DnnGraph::BatchNormGrad(const BatchNormGradTensors& t) {
  Builder operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, "batch normalisation");
  operation.Set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_BATCH_NORM);
  Operate("batch_norm_grad", std::move(operation),
          {{CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, t.x},
           {CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, t.gy},
           {CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, t.scale},
           {CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, t.saved_mean},
           {CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, t.saved_inv},
           {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, t.gx},
           {CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, t.gscale},
           {CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, t.gbias}});
}

// ---- Plans --------------------------------------------------------------------------------------

namespace {

StatusOr<size_t> WorkspaceOf(const DnnDescriptor& plan) {
  int64_t count = 0, bytes = 0;
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &bytes),
                "workspace"));
  if (count != 1)
    return Internal("cuDNN reports %d values for the workspace size, expected 1", count);
  return static_cast<size_t>(bytes);
}

// Returns the descriptor to which attribute `name` of `from` refers.
StatusOr<DnnDescriptor> GetPart(const DnnDescriptor& from, cudnnBackendAttributeName_t name,
                                cudnnBackendDescriptorType_t type, const char* what) {
  TD_ASSIGN_OR_RETURN(DnnDescriptor part, Create(type, what));
  int64_t count = 0;
  void* at = part.get();
  TD_RETURN_IF_ERROR(DnnStatus(
      cudnnBackendGetAttribute(from.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &at),
      what));
  return part;
}

// Returns true if the engine of `config` is deterministic according to its notes.
StatusOr<bool> GivesSameBits(const DnnDescriptor& config) {
  TD_ASSIGN_OR_RETURN(
      const DnnDescriptor engine,
      GetPart(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "engine"));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t count = 0;
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                         CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                         &count, notes),
                "engine's notes"));
  const auto given =
      std::span(notes).first(static_cast<size_t>(std::clamp<int64_t>(count, 0, std::ssize(notes))));
  return std::ranges::find(given, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == given.end();
}

// Returns up to `count` engine configurations that cuDNN's heuristics propose.
StatusOr<std::vector<DnnDescriptor>> Proposals(const DnnDescriptor& heuristics, size_t count) {
  std::vector<DnnDescriptor> configs;
  std::vector<void*> at;
  for (size_t i = 0; i < count; ++i) {
    TD_ASSIGN_OR_RETURN(DnnDescriptor config,
                        Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine's configuration"));
    at.push_back(config.get());
    configs.push_back(std::move(config));
  }
  const auto room = static_cast<int64_t>(count);
  int64_t given = 0;
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &given, at.data()),
                "proposals"));
  configs.resize(static_cast<size_t>(std::clamp<int64_t>(given, 0, room)));
  return configs;
}

}  // namespace

StatusOr<DnnDescriptor> DnnDeviceOf(cudnnHandle_t handle) {
  return DnnGraph::Builder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "device")
      .Set(CUDNN_ATTR_DEVICEPROP_HANDLE, handle)
      .Finalize();
}

StatusOr<DnnDescriptor> DnnDeviceFrom(std::string_view json) {
  return DnnGraph::Builder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "device")
      .Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(json))
      .Finalize();
}

StatusOr<DnnPlan> DnnGraph::MakeProposal(const DnnDescriptor& device, size_t number) const {
  TD_RETURN_IF_ERROR(status_);
  const bool fallback = number >= kFallback;
  const size_t at = fallback ? number - kFallback : number;
  std::vector<void*> operations;
  for (const DnnDescriptor& operation : operations_) operations.push_back(operation.get());
  TD_ASSIGN_OR_RETURN(const DnnDescriptor graph,
                      Builder(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "graph")
                          .Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<void* const>(operations))
                          .Finalize());
  const auto heuristics =
      Builder(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics")
          .Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
          .Set(CUDNN_ATTR_ENGINEHEUR_MODE, fallback ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_A)
          .Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.get())
          .Finalize();
  if (!heuristics.ok()) return NotFound("%s", std::string(heuristics.status().message()));
  TD_ASSIGN_OR_RETURN(const std::vector<DnnDescriptor> configs, Proposals(*heuristics, at + 1));
  if (at >= configs.size())
    return NotFound("cuDNN has no further execution plan for this operator after %d plans",
                    configs.size());
  TD_ASSIGN_OR_RETURN(const bool same_bits, GivesSameBits(configs[at]));
  if (!same_bits) return Unimplemented("cuDNN's execution plan %d is not deterministic", number);
  TD_ASSIGN_OR_RETURN(const DnnDescriptor plan,
                      Builder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan")
                          .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[at].get())
                          .Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device.get())
                          .Finalize());
  TD_ASSIGN_OR_RETURN(const size_t workspace, WorkspaceOf(plan));
  return DnnPlan({plan, configs[at], graph, device}, workspace);
}

StatusOr<DnnPlan> DnnGraph::MakePlan(const DnnDescriptor& device, size_t workspace_max) const {
  for (size_t number = 0; number < kProposals;) {
    StatusOr<DnnPlan> plan = MakeProposal(device, number);
    if (plan.ok() && plan->workspace() <= workspace_max) return plan;
    // Each call fetches only the proposals up to `number`, because fetching can take as long as
    // making a plan.
    const bool no_more = plan.status().code() == StatusCode::kNotFound;
    number = !no_more ? number + 1 : number < kFallback ? kFallback : kProposals;
  }
  return Unimplemented("cuDNN has no execution plan for%s with at most %d bytes of workspace", key_,
                       workspace_max);
}

StatusOr<std::string> DnnPlan::text() const {
  // A call with a capacity of 0 returns the size of the text.
  const auto get = [this](int64_t room, int64_t* count, char* text) {
    return DnnStatus(cudnnBackendGetAttribute(parts_.front().get(),
                                              CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                              CUDNN_TYPE_CHAR, room, count, text),
                     "a plan's text");
  };
  int64_t count = 0;
  TD_RETURN_IF_ERROR(get(0, &count, nullptr));
  std::string text(static_cast<size_t>(count), '\0');
  TD_RETURN_IF_ERROR(get(count, &count, text.data()));
  text.resize(std::min(text.size(), static_cast<size_t>(count)));
  return text;
}

StatusOr<DnnPlan> DnnPlan::Restore(const DnnDescriptor& device, std::string_view text) {
  TD_ASSIGN_OR_RETURN(
      const DnnDescriptor plan,
      DnnGraph::Builder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan of a text")
          .Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device.get())
          .Set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, std::span<const char>(text))
          .Finalize());
  TD_ASSIGN_OR_RETURN(const size_t workspace, WorkspaceOf(plan));
  return DnnPlan({plan, device}, workspace);
}

Status DnnPlan::Run(cudnnHandle_t handle, std::span<const Given> given, void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> memory;
  for (const auto& [tensor, at] : given) {
    ids.push_back(tensor + 1);
    memory.push_back(const_cast<void*>(at));
  }
  TD_ASSIGN_OR_RETURN(const DnnDescriptor pack,
                      DnnGraph::Builder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "arguments")
                          .Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids))
                          .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                               std::span<void* const>(memory), CUDNN_TYPE_VOID_PTR)
                          .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace, CUDNN_TYPE_VOID_PTR)
                          .Finalize());
  return DnnStatus(cudnnBackendExecute(handle, parts_.front().get(), pack.get()), "running a plan");
}

}  // namespace tandem::ops
