#include "tests/cuda_on_host/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_host/elements.h"
#include "tests/cuda_on_host/notes.h"

namespace {

using tandem::DType;

struct Descriptor {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<std::byte> bytes;
  };
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes;

  bool has(int name) const { return attributes.contains(name); }
  template <typename T>
  std::vector<T> all(int name) const {
    const auto at = attributes.find(name);
    if (at == attributes.end()) return {};
    std::vector<T> values(static_cast<size_t>(at->second.count));
    std::memcpy(values.data(), at->second.bytes.data(), at->second.bytes.size());
    return values;
  }
  template <typename T>
  T get(int name) const {
    const auto at = attributes.find(name);
    T value{};
    if (at != attributes.end()) std::memcpy(&value, at->second.bytes.data(), sizeof(T));
    return value;
  }
  const Descriptor& part(int name) const { return *get<Descriptor*>(name); }
};

Descriptor& Of(cudnnBackendDescriptor_t d) { return *static_cast<Descriptor*>(d); }

size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:  // enumerations and f32
      return 4;
  }
}

// ---- Tensors ------------------------------------------------------------------------------------

struct Array {
  std::array<int64_t, 4> dims, strides;
  cudnnDataType_t type;
  void* memory;
  std::shared_ptr<std::vector<float>> between;  // of a virtual tensor

  int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  // Element i of all with these dims, channels last; what has one of a dimension has it for all.
  int64_t At(int64_t i, const Array& like) const {
    const int64_t c = i % like.dims[1], w = i / like.dims[1] % like.dims[3];
    const int64_t h = i / like.dims[1] / like.dims[3] % like.dims[2];
    const std::array<int64_t, 4> index = {i / like.dims[1] / like.dims[3] / like.dims[2], c, h, w};
    int64_t at = 0;
    for (size_t d = 0; d < 4; ++d) at += dims[d] == 1 ? 0 : index[d] * strides[d];
    return at;
  }
  DType dtype() const {
    return tandem::cuda_on_host::TypeOf(type, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16);
  }
  float Load(int64_t at) const {
    return between != nullptr ? (*between)[static_cast<size_t>(at)]
                              : tandem::cuda_on_host::Load(dtype(), memory, at);
  }
  void Store(int64_t at, float value) const {
    if (between == nullptr) return tandem::cuda_on_host::Store(dtype(), memory, at, value);
    (*between)[static_cast<size_t>(at)] = value;
    float& kept = (*between)[static_cast<size_t>(at)];
    if (type == CUDNN_DATA_HALF) kept = tandem::F16ToF32(tandem::F32ToF16(value));
    if (type == CUDNN_DATA_BFLOAT16) kept = tandem::BF16ToF32(tandem::F32ToBF16(value));
  }
};

using Arrays = std::map<int64_t, Array>;  // by unique id

const Array& ArrayOf(const Arrays& arrays, const Descriptor& operation, int name) {
  return arrays.at(operation.part(name).get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
}

// ---- Operations ---------------------------------------------------------------------------------

void Pointwise(const Descriptor& operation, const Arrays& arrays) {
  const auto mode = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        .get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const Array& y = ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  const Array& a = ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  const bool two = operation.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const Array& b = two ? ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) : a;
  for (int64_t i = 0; i < y.count(); ++i) {
    const float p = a.Load(a.At(i, y)), q = b.Load(b.At(i, y));
    y.Store(y.At(i, y), mode == CUDNN_POINTWISE_ADD        ? p + q
                        : mode == CUDNN_POINTWISE_MUL      ? p * q
                        : mode == CUDNN_POINTWISE_RELU_FWD ? (p < 0 ? 0 : p)
                                                           : (p > q ? 1 : 0));
  }
}

void Convolution(const Descriptor& operation, const Arrays& arrays) {
  const Array& x = ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  const Array& w = ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  const Array& y = ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
  const Descriptor& c = operation.part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  const auto pad = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto stride = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto dilation = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const int64_t group = y.dims[1] / (x.dims[1] / w.dims[1]);
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t k = i % y.dims[1], col = i / y.dims[1] % y.dims[3];
    const int64_t row = i / y.dims[1] / y.dims[3] % y.dims[2];
    const int64_t n = i / y.dims[1] / y.dims[3] / y.dims[2];
    float sum = 0;
    for (int64_t in = 0; in < w.dims[1]; ++in) {
      for (int64_t r = 0; r < w.dims[2]; ++r) {
        for (int64_t s = 0; s < w.dims[3]; ++s) {
          const int64_t h = row * stride[0] - pad[0] + r * dilation[0];
          const int64_t v = col * stride[1] - pad[1] + s * dilation[1];
          if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) continue;
          const int64_t channel = k / group * w.dims[1] + in;
          sum += x.Load(n * x.strides[0] + channel * x.strides[1] + h * x.strides[2] +
                        v * x.strides[3]) *
                 w.Load(k * w.strides[0] + in * w.strides[1] + r * w.strides[2] + s * w.strides[3]);
        }
      }
    }
    y.Store(y.At(i, y), sum);
  }
}

void NormForward(const Descriptor& operation, const Arrays& arrays) {
  const auto of = [&](int name) -> const Array& { return ArrayOf(arrays, operation, name); };
  const Array& x = of(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const Array& y = of(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
  const double factor = of(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC).Load(0);
  const double epsilon = of(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC).Load(0);
  const int64_t channels = x.dims[1], n = x.count() / channels;
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += x.Load(x.At(i * channels + c, x));
    const double mean = sum / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      const double d = x.Load(x.At(i * channels + c, x)) - mean;
      squares += d * d;
    }
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
    const auto run = [&](int in, int out, double now) {
      of(out).Store(c, static_cast<float>((1 - factor) * of(in).Load(c) + factor * now));
    };
    run(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, mean);
    run(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
        squares / static_cast<double>(n - 1));
    of(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC).Store(c, static_cast<float>(mean));
    of(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC).Store(c, static_cast<float>(inverse));
    const double scale = of(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC).Load(c);
    const double bias = of(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC).Load(c);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = x.At(i * channels + c, x);
      y.Store(at, static_cast<float>((x.Load(at) - mean) * inverse * scale + bias));
    }
  }
}

void NormBackward(const Descriptor& operation, const Arrays& arrays) {
  const auto of = [&](int name) -> const Array& { return ArrayOf(arrays, operation, name); };
  const Array& x = of(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  const Array& gy = of(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
  const Array& gx = of(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC);
  const int64_t channels = x.dims[1], count = x.count() / channels;
  const auto n = static_cast<double>(count);
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = of(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC).Load(c);
    const double inverse = of(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC).Load(c);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = x.At(i * channels + c, x);
      sum += gy.Load(at);
      dot += gy.Load(at) * (x.Load(at) - mean);
    }
    of(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC).Store(c, static_cast<float>(dot * inverse));
    of(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC).Store(c, static_cast<float>(sum));
    const double factor = of(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC).Load(c) * inverse;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = x.At(i * channels + c, x);
      const double d = x.Load(at) - mean;
      gx.Store(at, static_cast<float>(factor *
                                      (gy.Load(at) - sum / n - d * dot * inverse * inverse / n)));
    }
  }
}

// ---- Graphs -------------------------------------------------------------------------------------

// Numbers of attributes that speak of tensors, of outputs last.
struct Slots {
  std::vector<int> in, out;
};
Slots SlotsOf(const Descriptor& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC},
              {CUDNN_ATTR_OPERATION_POINTWISE_YDESC}};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {
          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}};
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return {
          {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC},
          {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
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
  if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return "conv";
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

// What engines for the H200 serve.
bool Served(const Descriptor& graph) {
  for (const std::string known :
       {"conv add", "conv add relu", "conv relu", "norm", "norm relu", "norm add", "norm add relu",
        "norm_grad", "greater mul norm_grad"}) {
    if (NamesOf(graph) != known) continue;
    const auto operations = graph.all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const Descriptor& first = *operations.front();
    const Descriptor& y = first.part(SlotsOf(first).out.back());
    const Descriptor& x = first.part(SlotsOf(first).in.front());
    const auto dims = y.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto type = x.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    const bool half = type != CUDNN_DATA_FLOAT;
    if (dims[1] == 24) return false;
    return NamesOf(graph).starts_with("conv") ? half : dims[1] % (half ? 8 : 4) == 0;
  }
  return false;
}

// Every attribute that a descriptor of this type needs.
bool Complete(const Descriptor& d) {
  const auto has = [&](std::vector<int> names) {
    return std::all_of(names.begin(), names.end(), [&](int name) { return d.has(name); });
  };
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
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return has({CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC}) && has(SlotsOf(d).in) &&
             has(SlotsOf(d).out) &&
             d.get<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA) == 1.0f &&
             d.get<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA) == 0.0f;
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

// Proposals: one that gives other bits each time, one that needs too much memory, one that does.
enum Engine : int64_t { kOtherBits, kLarge, kGood, kEngines };
constexpr int kEngineNumber = 100000, kEngineGraph = 100001;  // attributes of our own
constexpr int64_t kWorkspace = 1000;

template <typename T>
void Put(Descriptor& d, int name, cudnnBackendAttributeType_t type, const T& value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  d.attributes[name] = {type, 1, std::move(bytes)};
}

// ---- A run --------------------------------------------------------------------------------------

// All tensors of a graph; empty where the pack does not fit it.
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
          // Read when the call is made.
          array.between =
              std::make_shared<std::vector<float>>(1, *static_cast<const float*>(given[id]));
        } else {
          array.memory = given[id];
          const bool aligned = reinterpret_cast<uintptr_t>(array.memory) % 16 == 0;
          if (array.memory == nullptr || !aligned) return {};
          if (out && inputs.contains(array.memory)) return {};  // in the place of an input
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
    if (room < kEngines || !d.finalized) return CUDNN_STATUS_BAD_PARAM;
    *count = kEngines;
    for (int64_t e = 0; e < kEngines; ++e) {
      Descriptor& config = Of(static_cast<void**>(values)[e]);
      Put(config, kEngineNumber, CUDNN_TYPE_INT64, e);
      Put(config, kEngineGraph, CUDNN_TYPE_BACKEND_DESCRIPTOR,
          d.get<Descriptor*>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
      config.finalized = true;
    }
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
  if (d.finalized || !Complete(d)) return CUDNN_STATUS_BAD_PARAM;
  if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      !Served(d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  d.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Descriptor& config = Of(plan).part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (config.get<int64_t>(kEngineNumber) != kGood) return CUDNN_STATUS_BAD_PARAM;
  const auto* const graph = config.get<Descriptor*>(kEngineGraph);
  Arrays arrays = ArraysOf(*graph, Of(pack));
  if (arrays.empty()) return CUDNN_STATUS_BAD_PARAM;
  tandem::cuda_on_host::Note("cudnnBackendExecute " + NamesOf(*graph));
  auto* const workspace = Of(pack).get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto work = [graph, workspace, arrays = std::move(arrays)] {
    std::memset(workspace, 0x5a, kWorkspace);
    for (const auto* operation : graph->all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      const std::string name = NameOf(*operation);
      const auto run = name == "conv"        ? Convolution
                       : name == "norm"      ? NormForward
                       : name == "norm_grad" ? NormBackward
                                             : Pointwise;
      run(*operation, arrays);
    }
    std::memset(workspace, 0x5a, kWorkspace);
  };
  const cudaError_t put = tandem::cuda_on_host::Put(handle->stream, "kernel", work);
  return put == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
