// A stand-in for the part of CUDA's runtime that kernels/ops and common/tensor/device_cuda.cu use.
// The stand-in runs in host memory and needs no nvcc. With the stand-in, the real code of the CUDA
// kernels runs on any machine, and tests compare the results with the reference loops. The stand-in
// cannot test a device, or the output of nvcc and ptxas.
#pragma once

#include <math.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <tuple>

#include "tests/cuda_on_host/blocks.h"

#define CUDART_VERSION 13000
#define __host__
#define __device__
#define __global__
#define __shared__ static thread_local

using dim3 = tandem::cuda_on_host::Dims;
// ---- Functions for kernels ----------------------------------------------------------------------

inline void __syncthreads() { tandem::cuda_on_host::SyncThreads(); }
inline int __syncthreads_or(int mine) { return tandem::cuda_on_host::SyncThreadsOr(mine != 0); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const unsigned from = tandem::cuda_on_host::Lane() ^ static_cast<unsigned>(mask);
  tandem::cuda_on_host::Exchange(&value, sizeof(T), from);
  return value;
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned step) {
  const unsigned lane = tandem::cuda_on_host::Lane();
  tandem::cuda_on_host::Exchange(&value, sizeof(T), lane < step ? lane : lane - step);
  return value;
}

template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}
inline unsigned long long atomicMin(unsigned long long* at, unsigned long long value) {
  const unsigned long long before = *at;
  *at = std::min(before, value);
  return before;
}
inline int atomicCAS(int* at, int expected, int value) {
  const int before = *at;
  if (before == expected) *at = value;
  return before;
}

inline float __int_as_float(int32_t bits) { return std::bit_cast<float>(bits); }
inline int32_t __float_as_int(float x) { return std::bit_cast<int32_t>(x); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
}
using std::isfinite;
using std::max;
using std::min;

// ---- Functions for the host ---------------------------------------------------------------------

enum cudaError_t {
  cudaSuccess,
  cudaErrorMemoryAllocation,
  cudaErrorInsufficientDriver,
  cudaErrorNoDevice,
  cudaErrorNotReady,
  cudaErrorStreamCaptureUnsupported,
  cudaErrorStreamCaptureInvalidated,
  cudaErrorInvalidKernelImage,
  cudaErrorInvalidValue
};
using cudaStream_t = struct CudaOnHostStream*;
using cudaGraph_t = struct CudaOnHostGraph*;
using cudaGraphExec_t = struct CudaOnHostGraph*;
using cudaGraphNode_t = struct CudaOnHostNode*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
using cudaEvent_t = struct CudaOnHostEvent*;
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaDataType { CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF };
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocPortable = 1,
                   cudaHostAllocMapped = 2;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

// Streams, and graphs. A graph stores the work that was put on a stream during its capture.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

namespace tandem::cuda_on_host {
// Runs `work` and logs it as `what` (notes.h). If the stream is being captured, stores `work` in
// the stream's graph instead.
cudaError_t Put(cudaStream_t stream, const char* what, std::function<void()> work);
}  // namespace tandem::cuda_on_host

cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream);

// The stand-in runs all work synchronously, so the event functions (cudaEvent*,
// cudaStreamWaitEvent) do nothing.
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the stand-in";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"CUDA on host", 1};
  return cudaSuccess;
}
enum cudaDeviceAttr {
  cudaDevAttrClockRate,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMemoryClockRate,
  cudaDevAttrGlobalMemoryBusWidth,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor
};
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  constexpr int kA100[] = {1410000, 108, 1215000, 5120, 8, 0};
  *value = kA100[attribute];
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

template <typename... Params, typename... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               Given&&... given) {
  return tandem::cuda_on_host::Put(config->stream, "kernel",
                                   [kernel, grid = config->gridDim, block = config->blockDim,
                                    params = std::tuple<Params...>(static_cast<Params>(given)...)] {
                                     tandem::cuda_on_host::RunBlocks(
                                         grid, block, [&] { std::apply(kernel, params); });
                                   });
}

// Libraries of kernels that the stand-in NVRTC (tests/support/fake_nvrtc.cc) compiled at run time.
using cudaLibrary_t = struct CudaOnHostLibrary*;
using cudaKernel_t = struct CudaOnHostKernel*;
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, void*, void**, unsigned,
                                void*, void**, unsigned);
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name);
cudaError_t cudaLibraryUnload(cudaLibrary_t library);
// Launches `kernel`, a cudaKernel_t with one parameter.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** params);
