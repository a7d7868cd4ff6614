#include "tests/cuda_on_host/cudnn.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/cuda_on_host/elements.h"
#include "tests/cuda_on_host/notes.h"

using tandem::DType;
using tandem::cuda_on_host::Load;
using tandem::cuda_on_host::Store;

namespace {

DType TypeOf(const CudnnOnHostTensor& t) {
  return tandem::cuda_on_host::TypeOf(t.type, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16);
}

int64_t CountOf(const CudnnOnHostTensor& t) {
  return int64_t{t.dims[0]} * t.dims[1] * t.dims[2] * t.dims[3];
}

int64_t At(const CudnnOnHostTensor& t, int64_t n, int64_t c, int64_t h, int64_t w) {
  if (t.format == CUDNN_TENSOR_NHWC) {
    return ((n * t.dims[2] + h) * t.dims[3] + w) * t.dims[1] + c;
  }
  return ((n * t.dims[1] + c) * t.dims[2] + h) * t.dims[3] + w;
}

struct Shapes {
  CudnnOnHostTensor x, w, y;
  CudnnOnHostConvolution c;

  bool Fit() const {
    for (int d = 0; d < 2; ++d) {
      const int reach = c.dilation[d] * (w.dims[2 + d] - 1) + 1;
      const int out = (x.dims[2 + d] + 2 * c.pad[d] - reach) / c.stride[d] + 1;
      if (out != y.dims[2 + d]) return false;
    }
    if (x.format != y.format || x.format != w.format) return false;
    return x.dims[0] == y.dims[0] && x.dims[1] == w.dims[1] * c.groups && y.dims[1] == w.dims[0];
  }

  // Calls fn(element of x, element of w, element of y) for every product that the convolution sums.
  template <typename Fn>
  void ForEach(const Fn& fn) const {
    for (int64_t k = 0; k < CountOf(y); ++k) {
      const int64_t col = k % y.dims[3], row = k / y.dims[3] % y.dims[2];
      const int64_t out = k / y.dims[3] / y.dims[2] % y.dims[1];
      const int64_t n = k / y.dims[3] / y.dims[2] / y.dims[1];
      const int64_t at_y = At(y, n, out, row, col);
      const int64_t first = out / (y.dims[1] / c.groups) * w.dims[1];
      for (int64_t in = 0; in < w.dims[1]; ++in) {
        for (int64_t i = 0; i < w.dims[2]; ++i) {
          const int64_t h = row * c.stride[0] - c.pad[0] + i * c.dilation[0];
          for (int64_t j = 0; j < w.dims[3]; ++j) {
            const int64_t v = col * c.stride[1] - c.pad[1] + j * c.dilation[1];
            if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) continue;
            fn(At(x, n, first + in, h, v), At(w, out, in, i, j), at_y);
          }
        }
      }
    }
  }
};

cudnnStatus_t Put(cudnnHandle_t handle, std::function<void()> work) {
  const cudaError_t put = tandem::cuda_on_host::Put(handle->stream, "kernel", std::move(work));
  return put == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// The arguments that all cuDNN calls share. Only alpha = 1 and beta = 0 are supported.
struct Call {
  cudnnHandle_t handle;
  const char* name;
  CudnnOnHostAlgo algo;
  const void *alpha, *beta;
  void* workspace;
  size_t bytes;
};

// Computes the sums of the convolution and stores them in `data`. product(sums, x, w, y) adds one
// product to `sums`.
template <typename T, typename Fn>
void Sum(const Shapes& shapes, T* sums, const CudnnOnHostTensor& result, void* data,
         const Fn& product) {
  std::fill_n(sums, CountOf(result), T{0});
  shapes.ForEach([&](int64_t x, int64_t w, int64_t y) { product(sums, x, w, y); });
  for (int64_t i = 0; i < CountOf(result); ++i) {
    Store(TypeOf(result), data, i, static_cast<float>(sums[i]));
  }
}

// Puts an operation on the stream, which may run it later. Therefore copies all arguments except
// the data of tensors.
template <typename Fn>
cudnnStatus_t Run(const Call& call, const Shapes& shapes, const CudnnOnHostTensor& result,
                  void* data, const Fn& product) {
  const bool plain =
      *static_cast<const float*>(call.alpha) == 1 && *static_cast<const float*>(call.beta) == 0;
  const bool room = call.bytes >= CudnnOnHostWorkspace(call.algo, result);
  if (!plain || !room || call.algo == kNobodysAlgo || !shapes.Fit()) return CUDNN_STATUS_BAD_PARAM;
  if (shapes.w.dims[3] == 4) return CUDNN_STATUS_NOT_SUPPORTED;
  tandem::cuda_on_host::Note(call.name + (" algorithm" + std::to_string(call.algo)));
  return Put(call.handle,
             [algo = call.algo, workspace = call.workspace, shapes, result, data, product] {
               std::vector<float> own;
               if (algo == kCudnnOnHostDoubles) {
                 Sum(shapes, static_cast<double*>(workspace), result, data, product);
               } else if (algo == kCudnnOnHostFloats) {
                 Sum(shapes, static_cast<float*>(workspace), result, data, product);
               } else {
                 own.resize(static_cast<size_t>(CountOf(result)));
                 Sum(shapes, own.data(), result, data, product);
               }
             });
}

}  // namespace

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_desc, const void* x,
                                      cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t conv, CudnnOnHostAlgo algo,
                                      void* workspace, size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_desc, void* y) {
  const DType type = TypeOf(*x_desc);
  return Run({handle, "cudnnConvolutionForward", algo, alpha, beta, workspace, bytes},
             {*x_desc, *w_desc, *y_desc, *conv}, *y_desc, y,
             [=](auto* sums, int64_t xi, int64_t wi, int64_t yi) {
               sums[yi] += Load(type, x, xi) * Load(type, w, wi);
             });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w_desc, const void* w,
                                           cudnnTensorDescriptor_t y_desc, const void* gy,
                                           cudnnConvolutionDescriptor_t conv, CudnnOnHostAlgo algo,
                                           void* workspace, size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_desc, void* gx) {
  const DType type = TypeOf(*x_desc);
  return Run({handle, "cudnnConvolutionBackwardData", algo, alpha, beta, workspace, bytes},
             {*x_desc, *w_desc, *y_desc, *conv}, *x_desc, gx,
             [=](auto* sums, int64_t xi, int64_t wi, int64_t yi) {
               sums[xi] += Load(type, w, wi) * Load(type, gy, yi);
             });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x_desc, const void* x,
                                             cudnnTensorDescriptor_t y_desc, const void* gy,
                                             cudnnConvolutionDescriptor_t conv,
                                             CudnnOnHostAlgo algo, void* workspace, size_t bytes,
                                             const void* beta, cudnnFilterDescriptor_t w_desc,
                                             void* gw) {
  const DType type = TypeOf(*x_desc);
  return Run({handle, "cudnnConvolutionBackwardFilter", algo, alpha, beta, workspace, bytes},
             {*x_desc, *w_desc, *y_desc, *conv}, *w_desc, gw,
             [=](auto* sums, int64_t xi, int64_t wi, int64_t yi) {
               sums[wi] += Load(type, x, xi) * Load(type, gy, yi);
             });
}

namespace {

// One channel of tensor x. Index i of an element is its position in the channel.
struct Channel {
  const CudnnOnHostTensor& x;
  int64_t c;

  int64_t count() const { return CountOf(x) / x.dims[1]; }
  int64_t At(int64_t i) const {
    const int64_t plane = int64_t{x.dims[2]} * x.dims[3];
    if (x.format == CUDNN_TENSOR_NHWC) return i * x.dims[1] + c;
    return (i / plane * x.dims[1] + c) * plane + i % plane;
  }
};

void NoteNorm(const char* what, cudnnBatchNormMode_t mode) {
  tandem::cuda_on_host::Note(std::string(what) + (mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT
                                                      ? " SPATIAL_PERSISTENT"
                                                      : " SPATIAL"));
}

}  // namespace

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void*, const void*,
    cudnnTensorDescriptor_t x_desc, const void* x, cudnnTensorDescriptor_t, void* y,
    cudnnTensorDescriptor_t, const void* scale, const void* bias, double, void* mean,
    void* variance, double epsilon, void* saved_mean, void* saved_inv) {
  if (x == y || mean != nullptr || variance != nullptr) return CUDNN_STATUS_BAD_PARAM;
  NoteNorm("cudnnBatchNormalizationForwardTraining", mode);
  return Put(handle, [=, shape = *x_desc] {
    const DType type = TypeOf(shape);
    for (int64_t c = 0; c < shape.dims[1]; ++c) {
      const Channel channel{shape, c};
      const auto n = static_cast<double>(channel.count());
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < channel.count(); ++i) sum += Load(type, x, channel.At(i));
      const double center = sum / n;
      for (int64_t i = 0; i < channel.count(); ++i) {
        const double d = Load(type, x, channel.At(i)) - center;
        squares += d * d;
      }
      const double inverse = 1 / std::sqrt(squares / n + epsilon);
      static_cast<float*>(saved_mean)[c] = static_cast<float>(center);
      static_cast<float*>(saved_inv)[c] = static_cast<float>(inverse);
      const float weight = static_cast<const float*>(scale)[c];
      for (int64_t i = 0; i < channel.count(); ++i) {
        const double h = (Load(type, x, channel.At(i)) - center) * inverse;
        Store(type, y, channel.At(i),
              static_cast<float>(h * weight + static_cast<const float*>(bias)[c]));
      }
    }
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void*, const void*, const void*,
    const void*, cudnnTensorDescriptor_t x_desc, const void* x, cudnnTensorDescriptor_t,
    const void* gy, cudnnTensorDescriptor_t, void* gx, cudnnTensorDescriptor_t, const void* scale,
    void* gscale, void* gbias, double, const void* saved_mean, const void* saved_inv) {
  if (gx == gy) return CUDNN_STATUS_BAD_PARAM;
  NoteNorm("cudnnBatchNormalizationBackward", mode);
  return Put(handle, [=, shape = *x_desc] {
    const DType type = TypeOf(shape);
    for (int64_t c = 0; c < shape.dims[1]; ++c) {
      const Channel channel{shape, c};
      const auto n = static_cast<double>(channel.count());
      const double center = static_cast<const float*>(saved_mean)[c];
      const double inverse = static_cast<const float*>(saved_inv)[c];
      double sum = 0, dot = 0;
      for (int64_t i = 0; i < channel.count(); ++i) {
        const double g = Load(type, gy, channel.At(i));
        sum += g;
        dot += g * (Load(type, x, channel.At(i)) - center);
      }
      static_cast<float*>(gscale)[c] = static_cast<float>(dot * inverse);
      static_cast<float*>(gbias)[c] = static_cast<float>(sum);
      const double factor = static_cast<const float*>(scale)[c] * inverse;
      for (int64_t i = 0; i < channel.count(); ++i) {
        const double g = Load(type, gy, channel.At(i)), d = Load(type, x, channel.At(i)) - center;
        Store(type, gx, channel.At(i),
              static_cast<float>(factor * (g - sum / n - d * dot * inverse * inverse / n)));
      }
    }
  });
}
