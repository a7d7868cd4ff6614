// A stand-in for the part of cuDNN that kernels/ops/conv/conv_cuda.cu uses. It computes with plain
// loops (see cuda_runtime.h).
#pragma once

#include <memory>

#include "tests/cuda_on_host/cuda_runtime.h"

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000
};
enum cudnnDataType_t {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_BOOLEAN = 11
};
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION };
enum cudnnMathType_t { CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH = 3 };
enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC, CUDNN_DETERMINISTIC };
enum cudnnBatchNormMode_t {
  CUDNN_BATCHNORM_PER_ACTIVATION,
  CUDNN_BATCHNORM_SPATIAL,
  CUDNN_BATCHNORM_SPATIAL_PERSISTENT
};
// Algorithms, in the order of the enumeration: loops that sum in f32 without a workspace; the same
// loops with f64 sums in the workspace; the same loops with f32 sums in the workspace; an algorithm
// that never runs.
enum CudnnOnHostAlgo { kCudnnOnHostLoops, kCudnnOnHostDoubles, kCudnnOnHostFloats, kNobodysAlgo };

constexpr int CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8;
constexpr int CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6;
constexpr int CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7;

struct CudnnOnHostTensor {  // a tensor or a filter
  cudnnDataType_t type;
  int dims[4];
  cudnnTensorFormat_t format;
};
struct CudnnOnHostConvolution {
  int pad[2], stride[2], dilation[2], groups;
  cudnnMathType_t math;
};
using cudnnHandle_t = struct CudnnOnHost*;
using cudnnTensorDescriptor_t = CudnnOnHostTensor*;
using cudnnFilterDescriptor_t = struct CudnnOnHostFilter*;
using cudnnConvolutionDescriptor_t = CudnnOnHostConvolution*;
struct CudnnOnHostFilter : CudnnOnHostTensor {};

template <int kind>
struct CudnnOnHostPerf {
  CudnnOnHostAlgo algo;
  cudnnStatus_t status;
  size_t memory;
  cudnnDeterminism_t determinism;
};
using cudnnConvolutionFwdAlgoPerf_t = CudnnOnHostPerf<0>;
using cudnnConvolutionBwdDataAlgoPerf_t = CudnnOnHostPerf<1>;
using cudnnConvolutionBwdFilterAlgoPerf_t = CudnnOnHostPerf<2>;

struct CudnnOnHost {
  cudaStream_t stream;
};
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
inline size_t cudnnGetVersion() { return 90000; }
inline size_t cudnnGetCudartVersion() { return 13000; }
inline const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "bad parameter";
}
inline void cudnnGetLastErrorString(char* message, size_t size) {
  if (size > 0) *message = '\0';
}

template <typename Described>
cudnnStatus_t CudnnOnHostMake(Described** descriptor) {
  *descriptor = std::make_unique<Described>().release();
  return CUDNN_STATUS_SUCCESS;
}
template <typename Described>
cudnnStatus_t CudnnOnHostDrop(Described* descriptor) {
  const std::unique_ptr<Described> owned(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
constexpr auto cudnnCreate = CudnnOnHostMake<CudnnOnHost>;
constexpr auto cudnnDestroy = CudnnOnHostDrop<CudnnOnHost>;
constexpr auto cudnnCreateTensorDescriptor = CudnnOnHostMake<CudnnOnHostTensor>;
constexpr auto cudnnDestroyTensorDescriptor = CudnnOnHostDrop<CudnnOnHostTensor>;
constexpr auto cudnnCreateFilterDescriptor = CudnnOnHostMake<CudnnOnHostFilter>;
constexpr auto cudnnDestroyFilterDescriptor = CudnnOnHostDrop<CudnnOnHostFilter>;
constexpr auto cudnnCreateConvolutionDescriptor = CudnnOnHostMake<CudnnOnHostConvolution>;
constexpr auto cudnnDestroyConvolutionDescriptor = CudnnOnHostDrop<CudnnOnHostConvolution>;

inline cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t,
                                                cudnnTensorFormat_t format, cudnnDataType_t type,
                                                int n, int c, int h, int w) {
  *t = {type, {n, c, h, w}, format};
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type,
                                                cudnnTensorFormat_t format, int k, int c, int h,
                                                int w) {
  *f = {{type, {k, c, h, w}, format}};
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_h,
                                                     int pad_w, int stride_h, int stride_w,
                                                     int dilation_h, int dilation_w,
                                                     cudnnConvolutionMode_t mode,
                                                     cudnnDataType_t compute) {
  *c = {{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1, CUDNN_DEFAULT_MATH};
  const bool known = mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT;
  return known ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
inline cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c,
                                                 cudnnMathType_t math) {
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}

// Returns the size in bytes of the workspace that an algorithm needs for `result`.
inline size_t CudnnOnHostWorkspace(CudnnOnHostAlgo algo, const CudnnOnHostTensor& result) {
  if (algo == kNobodysAlgo) return size_t{1} << 60;
  size_t elements = 1;
  for (const int dim : result.dims) elements *= static_cast<size_t>(dim);
  return algo == kCudnnOnHostDoubles  ? elements * sizeof(double)
         : algo == kCudnnOnHostFloats ? elements * sizeof(float)
                                      : 0;
}

// Proposes algorithms. Callers must not use the first two proposals: the first is declared
// non-deterministic, and the second needs too much memory. The usable algorithms follow in
// descending order of workspace. If the filter has four rows, no usable algorithm is proposed. If
// the filter has four columns, no proposed algorithm runs.
template <int kind>
cudnnStatus_t CudnnOnHostPropose(const CudnnOnHostTensor& filter, const CudnnOnHostTensor& result,
                                 int room, int* count, CudnnOnHostPerf<kind>* proposals) {
  if (room < 5) return CUDNN_STATUS_BAD_PARAM;
  proposals[0] = {kNobodysAlgo, CUDNN_STATUS_SUCCESS, 0, CUDNN_NON_DETERMINISTIC};
  proposals[1] = {kNobodysAlgo, CUDNN_STATUS_SUCCESS, size_t{1} << 60, CUDNN_DETERMINISTIC};
  *count = 2;
  if (filter.dims[2] == 4) return CUDNN_STATUS_SUCCESS;
  for (const auto algo : {kCudnnOnHostDoubles, kCudnnOnHostFloats, kCudnnOnHostLoops}) {
    // The stated `memory` is on purpose only half of the needed size, as if the size were that of
    // another math type.
    proposals[(*count)++] = {algo, CUDNN_STATUS_SUCCESS, CudnnOnHostWorkspace(algo, result) / 2,
                             CUDNN_DETERMINISTIC};
  }
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t y, int room, int* count, cudnnConvolutionFwdAlgoPerf_t* proposals) {
  return CudnnOnHostPropose(*w, *y, room, count, proposals);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t x, int room, int* count, cudnnConvolutionBwdDataAlgoPerf_t* proposals) {
  return CudnnOnHostPropose(*w, *x, room, count, proposals);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnFilterDescriptor_t w, int room, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* proposals) {
  return CudnnOnHostPropose(*w, *w, room, count, proposals);
}

inline cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnFilterDescriptor_t,
                                                             cudnnConvolutionDescriptor_t,
                                                             cudnnTensorDescriptor_t y,
                                                             CudnnOnHostAlgo algo, size_t* bytes) {
  *bytes = CudnnOnHostWorkspace(algo, *y);
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t x, CudnnOnHostAlgo algo, size_t* bytes) {
  *bytes = CudnnOnHostWorkspace(algo, *x);
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnFilterDescriptor_t w, CudnnOnHostAlgo algo, size_t* bytes) {
  *bytes = CudnnOnHostWorkspace(algo, *w);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_desc, const void* x,
                                      cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t conv, CudnnOnHostAlgo algo,
                                      void* workspace, size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_desc, void* y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w_desc, const void* w,
                                           cudnnTensorDescriptor_t y_desc, const void* gy,
                                           cudnnConvolutionDescriptor_t conv, CudnnOnHostAlgo algo,
                                           void* workspace, size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_desc, void* gx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x_desc, const void* x,
                                             cudnnTensorDescriptor_t y_desc, const void* gy,
                                             cudnnConvolutionDescriptor_t conv,
                                             CudnnOnHostAlgo algo, void* workspace, size_t bytes,
                                             const void* beta, cudnnFilterDescriptor_t w_desc,
                                             void* gw);

inline cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t channels,
                                                   cudnnTensorDescriptor_t x,
                                                   cudnnBatchNormMode_t mode) {
  *channels = {CUDNN_DATA_FLOAT, {1, x->dims[1], 1, 1}, CUDNN_TENSOR_NCHW};
  return mode == CUDNN_BATCHNORM_PER_ACTIVATION ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x_desc, const void* x, cudnnTensorDescriptor_t y_desc, void* y,
    cudnnTensorDescriptor_t channels, const void* scale, const void* bias, double factor,
    void* mean, void* variance, double epsilon, void* saved_mean, void* saved_inv);
cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_param, const void* beta_param, cudnnTensorDescriptor_t x_desc, const void* x,
    cudnnTensorDescriptor_t gy_desc, const void* gy, cudnnTensorDescriptor_t gx_desc, void* gx,
    cudnnTensorDescriptor_t channels, const void* scale, void* gscale, void* gbias, double epsilon,
    const void* saved_mean, const void* saved_inv);

#include "tests/cuda_on_host/cudnn_graph.h"
