// Operations of the stand-in for cuDNN's graphs. They compute with plain loops.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda_on_host/cudnn_descriptor.h"
#include "tests/cuda_on_host/elements.h"

namespace tandem::cuda_on_host {

struct Array {
  std::array<int64_t, 4> dims, strides;
  cudnnDataType_t type;
  void* memory;
  // Values of a virtual or by-value tensor; null: the values of the tensor are in `memory`.
  std::shared_ptr<std::vector<float>> between;

  int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  // Returns the index in this array that corresponds to element i of `like`. Elements are counted
  // with channels last. A dimension of 1 in this array is broadcast.
  int64_t At(int64_t i, const Array& like) const {
    const int64_t c = i % like.dims[1], w = i / like.dims[1] % like.dims[3];
    const int64_t h = i / like.dims[1] / like.dims[3] % like.dims[2];
    const std::array<int64_t, 4> index = {i / like.dims[1] / like.dims[3] / like.dims[2], c, h, w};
    int64_t at = 0;
    for (size_t d = 0; d < 4; ++d) at += dims[d] == 1 ? 0 : index[d] * strides[d];
    return at;
  }
  DType dtype() const { return TypeOf(type, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16); }
  float Load(int64_t at) const {
    return between != nullptr ? (*between)[static_cast<size_t>(at)]
                              : cuda_on_host::Load(dtype(), memory, at);
  }
  void Store(int64_t at, float value) const {
    if (between == nullptr) return cuda_on_host::Store(dtype(), memory, at, value);
    (*between)[static_cast<size_t>(at)] = value;
    float& kept = (*between)[static_cast<size_t>(at)];
    if (type == CUDNN_DATA_HALF) kept = tandem::F16ToF32(tandem::F32ToF16(value));
    if (type == CUDNN_DATA_BFLOAT16) kept = tandem::BF16ToF32(tandem::F32ToBF16(value));
  }
};

using Arrays = std::map<int64_t, Array>;  // tensors by unique id

inline const Array& ArrayOf(const Arrays& arrays, const Descriptor& operation, int name) {
  return arrays.at(operation.part(name).get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
}

// Numbers of the attributes of a convolution. `out` equals x, w or y, whichever tensor the
// operation computes.
struct ConvolutionNames {
  int part, alpha, beta, x, w, y, out;
};
ConvolutionNames NamesOfConvolution(const Descriptor& operation);
bool IsConvolution(const Descriptor& operation);

void RunOperation(const Descriptor& operation, const Arrays& arrays);

}  // namespace tandem::cuda_on_host
