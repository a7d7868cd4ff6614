#include "tests/cuda_on_host/cudnn_graph.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_host/cudnn_operations.h"
#include "tests/cuda_on_host/notes.h"

namespace {

using tandem::cuda_on_host::Array;
using tandem::cuda_on_host::Arrays;
using tandem::cuda_on_host::ConvolutionNames;
using tandem::cuda_on_host::Descriptor;
using tandem::cuda_on_host::IsConvolution;
using tandem::cuda_on_host::NamesOfConvolution;
using tandem::cuda_on_host::SizeOf;

Descriptor& Of(cudnnBackendDescriptor_t d) { return *static_cast<Descriptor*>(d); }

// ---- Graphs -------------------------------------------------------------------------------------

// Numbers of the attributes in which an operation refers to tensors: its inputs and its outputs.
struct Slots {
  std::vector<int> in, out;
};
Slots SlotsOf(const Descriptor& operation) {
  if (IsConvolution(operation)) {
    const ConvolutionNames names = NamesOfConvolution(operation);
    Slots slots{{}, {names.out}};
    for (const int name : {names.x, names.w, names.y}) {
      if (name != names.out) slots.in.push_back(name);
    }
    return slots;
  }
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC},
              {CUDNN_ATTR_OPERATION_POINTWISE_YDESC}};
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return {
          {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC},
          {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_YDESC}};
    default:
      return {{CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
               CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
               CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC},
              {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
               CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC}};
  }
}

std::string NameOf(const Descriptor& operation) {
  if (IsConvolution(operation)) {
    const ConvolutionNames names = NamesOfConvolution(operation);
    return names.out == names.y ? "conv" : names.out == names.x ? "conv_input" : "conv_filter";
  }
  if (operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) return "norm";
  if (operation.type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR) return "norm_grad";
  const auto mode = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        .get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  return mode == CUDNN_POINTWISE_ADD        ? "add"
         : mode == CUDNN_POINTWISE_MUL      ? "mul"
         : mode == CUDNN_POINTWISE_RELU_FWD ? "relu"
                                            : "greater";
}

std::string NamesOf(const Descriptor& graph) {
  std::string names;
  for (const auto* operation : graph.all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    names += (names.empty() ? "" : " ") + NameOf(*operation);
  }
  return names;
}

// Returns the number of channels of the output of the graph's first operation.
int64_t ChannelsOf(const Descriptor& graph) {
  const Descriptor& first = *graph.all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS).front();
  return first.part(SlotsOf(first).out.back()).all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)[1];
}

// Returns whether the stand-in supports the graph. Supported graphs are graphs that the engines for
// the H200 support. To test failures, a graph with 24 channels has no plan, and a graph with 40
// channels fails when it runs.
constexpr int64_t kNoPlan = 24, kNoRun = 40;
bool Served(const Descriptor& graph) {
  for (const std::string known :
       {"conv", "conv add", "conv add relu", "conv relu", "conv_input", "conv_filter", "norm",
        "norm relu", "norm add", "norm add relu", "norm_grad", "greater mul norm_grad"}) {
    if (NamesOf(graph) != known) continue;
    const auto operations = graph.all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const Descriptor& first = *operations.front();
    const Descriptor& x = first.part(SlotsOf(first).in.front());
    const auto type = x.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    const bool half = type != CUDNN_DATA_FLOAT;
    if (ChannelsOf(graph) == kNoPlan) return false;
    if (!IsConvolution(first)) return ChannelsOf(graph) % (half ? 8 : 4) == 0;
    const Descriptor& w = first.part(NamesOfConvolution(first).w);
    const bool grouped = w.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)[1] !=
                         x.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)[1];
    const bool sum = operations.size() > 1;
    return half && !(grouped && sum && type == CUDNN_DATA_BFLOAT16);
  }
  return false;
}

// Returns whether the descriptor has every attribute that its type needs.
bool Complete(const Descriptor& d) {
  const auto has = [&](std::vector<int> names) {
    return std::all_of(names.begin(), names.end(), [&](int name) { return d.has(name); });
  };
  if (IsConvolution(d)) {
    const ConvolutionNames names = NamesOfConvolution(d);
    return has({names.part, names.x, names.w, names.y}) && d.get<float>(names.alpha) == 1.0f &&
           d.has(names.beta) && d.get<float>(names.beta) == 0.0f;
  }
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return has({CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE,
                  CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
                  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT});
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return has({CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC}) &&
             (d.get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) != CUDNN_POINTWISE_RELU_FWD ||
              d.get<cudnnNanPropagation_t>(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) ==
                  CUDNN_PROPAGATE_NAN);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return has({CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                  CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
                  CUDNN_ATTR_CONVOLUTION_DILATIONS});
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return has({CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC});
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return has(SlotsOf(d).in) && has(SlotsOf(d).out) &&
             d.get<int>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE) == CUDNN_BATCH_NORM &&
             d.get<int>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == CUDNN_NORM_FWD_TRAINING;
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return has(SlotsOf(d).in) && has(SlotsOf(d).out) &&
             d.get<int>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE) == CUDNN_BATCH_NORM;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return has({CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE,
                  CUDNN_ATTR_ENGINEHEUR_DEVICEPROP});
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return has({CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP});
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return has({CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                  CUDNN_ATTR_VARIANT_PACK_WORKSPACE});
    default:
      return true;
  }
}

// The proposed engines: the first gives different bits at each call, the second needs too much
// memory, the other two are usable.
enum Engine : int64_t { kOtherBits, kLarge, kGood, kSecond, kEngines };
// Numbers of attributes that exist only in this stand-in for cuDNN.
constexpr int kEngineNumber = 100000, kEngineGraph = 100001;
constexpr int64_t kWorkspace = 1000;

template <typename T>
void Put(Descriptor& d, int name, cudnnBackendAttributeType_t type, const T& value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  d.attributes[name] = {type, 1, std::move(bytes)};
}

// Restores a plan from its text, as if the caller had set its engine configuration.
bool Restore(Descriptor& plan) {
  const auto text = plan.all<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  auto config = tandem::cuda_on_host::FromText({text.data(), text.size()});
  if (config == nullptr || !config->has(kEngineGraph)) return false;
  Put(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, config.get());
  plan.owned.push_back(std::move(config));
  return true;
}

// ---- Running a graph ----------------------------------------------------------------------------

// Returns all tensors of a graph by unique id. The result is empty if the variant pack lacks a
// tensor, or has a misaligned pointer or an output in the memory of an input.
Arrays ArraysOf(const Descriptor& graph, const Descriptor& pack) {
  const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void*> given;
  for (size_t i = 0; i < ids.size(); ++i) given[ids[i]] = pointers[i];
  Arrays arrays;
  std::map<void*, int> inputs;
  for (const auto* operation : graph.all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const Slots slots = SlotsOf(*operation);
    for (const auto& [names, out] : {std::pair{&slots.in, false}, std::pair{&slots.out, true}}) {
      for (const int name : *names) {
        if (!operation->has(name)) continue;
        const Descriptor& t = operation->part(name);
        const auto id = t.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        if (arrays.contains(id)) continue;
        Array array{.type = t.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)};
        std::ranges::copy(t.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), array.dims.begin());
        std::ranges::copy(t.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES), array.strides.begin());
        if (t.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
          array.between = std::make_shared<std::vector<float>>(static_cast<size_t>(array.count()));
        } else if (t.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
          if (given[id] == nullptr) return {};
          // The stand-in reads the value of a scalar tensor during this call, not when the captured
          // graph runs.
          array.between =
              std::make_shared<std::vector<float>>(1, *static_cast<const float*>(given[id]));
        } else {
          array.memory = given[id];
          const bool aligned = reinterpret_cast<uintptr_t>(array.memory) % 16 == 0;
          if (array.memory == nullptr || !aligned) return {};
          // An output must not share its memory with an input.
          if (out && inputs.contains(array.memory)) return {};
          if (!out) ++inputs[array.memory];
        }
        arrays[id] = std::move(array);
      }
    }
  }
  return arrays;
}

}  // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  auto made = std::make_unique<Descriptor>();
  made->type = type;
  *descriptor = made.release();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::unique_ptr<Descriptor> owned(&Of(descriptor));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  Descriptor& d = Of(descriptor);
  if (d.finalized || values == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const auto* const bytes = static_cast<const std::byte*>(values);
  const size_t size = SizeOf(type) * static_cast<size_t>(count);
  d.attributes[name] = {type, count, {bytes, bytes + size}};
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  for (const auto* part : d.all<Descriptor*>(name)) {
    if (part == nullptr || !part->finalized) return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t room, int64_t* count,
                                       void* values) {
  const Descriptor& d = Of(descriptor);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    if (room < 1 || !d.finalized) return CUDNN_STATUS_BAD_PARAM;
    *count = std::min<int64_t>(room, kEngines);
    for (int64_t e = 0; e < *count; ++e) {
      Descriptor& config = Of(static_cast<void**>(values)[e]);
      Put(config, kEngineNumber, CUDNN_TYPE_INT64, e);
      Put(config, kEngineGraph, CUDNN_TYPE_BACKEND_DESCRIPTOR,
          d.get<Descriptor*>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
      config.finalized = true;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    const std::string text =
        tandem::cuda_on_host::ToText(d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
    *count = static_cast<int64_t>(text.size());
    if (room >= *count) std::ranges::copy(text, static_cast<char*>(values));
    return CUDNN_STATUS_SUCCESS;
  }
  *count = 1;
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    Put(Of(*static_cast<void**>(values)), kEngineNumber, CUDNN_TYPE_INT64,
        d.get<int64_t>(kEngineNumber));
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    const bool other = d.get<int64_t>(kEngineNumber) == kOtherBits;
    *static_cast<cudnnBackendNumericalNote_t*>(values) =
        other ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    const Descriptor& config = d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const bool large = config.get<int64_t>(kEngineNumber) == kLarge;
    *static_cast<int64_t*>(values) = large ? int64_t{1} << 40 : kWorkspace;
  } else {
    return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& d = Of(descriptor);
  const bool restored = d.has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  if (restored && !Restore(d)) return CUDNN_STATUS_BAD_PARAM;
  if (d.finalized || !Complete(d)) return CUDNN_STATUS_BAD_PARAM;
  if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      !Served(d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  d.finalized = true;
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const auto* const graph =
        d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).get<Descriptor*>(kEngineGraph);
    tandem::cuda_on_host::Note((restored ? "cuDNN restores " : "cuDNN compiles ") +
                               NamesOf(*graph));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Descriptor& config = Of(plan).part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto engine = config.get<int64_t>(kEngineNumber);
  if (engine != kGood && engine != kSecond) return CUDNN_STATUS_BAD_PARAM;
  const auto* const graph = config.get<Descriptor*>(kEngineGraph);
  if (ChannelsOf(*graph) == kNoRun) {
    tandem::cuda_on_host::Note("cudnnBackendExecute refuses " + NamesOf(*graph));
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  Arrays arrays = ArraysOf(*graph, Of(pack));
  if (arrays.empty()) return CUDNN_STATUS_BAD_PARAM;
  tandem::cuda_on_host::Note("cudnnBackendExecute " + NamesOf(*graph) +
                             (engine == kSecond ? " by the second" : ""));
  auto* const workspace = Of(pack).get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto work = [graph, workspace, arrays = std::move(arrays)] {
    std::memset(workspace, 0x5a, kWorkspace);
    for (const auto* operation : graph->all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      tandem::cuda_on_host::RunOperation(*operation, arrays);
    }
    std::memset(workspace, 0x5a, kWorkspace);
  };
  const cudaError_t put = tandem::cuda_on_host::Put(handle->stream, "kernel", work);
  return put == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
