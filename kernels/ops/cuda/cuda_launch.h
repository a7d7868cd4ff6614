// Helpers for launching kernels: grid-stride loops, element types, and element-wise maps over
// contiguous tensors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>

#include "common/tensor/device_cuda.h"
#include "kernels/ops/core/op.h"

namespace tandem::ops {

inline const CudaStream& StreamOf(const KernelArgs& args) {
  return *static_cast<const CudaStream*>(args.stream);
}

inline Status CheckCuda(cudaError_t error, const char* what) {
  return error == cudaSuccess
             ? OkStatus()
             : Internal("the CUDA call %s failed: %s", what, cudaGetErrorString(error));
}

// Launches `kernel` on the compute stream. Returns the errors of the launch only. The
// synchronisation of the device reports errors inside the kernel.
template <typename... Params, typename... Given>
Status Launch(const KernelArgs& args, dim3 blocks, dim3 threads, void (*kernel)(Params...),
              const Given&... given) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = StreamOf(args).stream;
  return CheckCuda(cudaLaunchKernelEx(&config, kernel, given...), "kernel launch");
}

template <typename T>
const T* In(const KernelArgs& args, int i) {
  return static_cast<const T*>(args.in[i]);
}
template <typename T>
T* Out(const KernelArgs& args, int i) {
  return static_cast<T*>(args.out[i]);
}

// Copies `bytes` bytes within the device. Does nothing if both pointers are equal.
inline Status CopyOnDevice(const KernelArgs& args, void* to, const void* from, size_t bytes) {
  if (to == from || bytes == 0) return OkStatus();
  return CheckCuda(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, StreamOf(args).stream), "copy");
}
inline Status ZeroOnDevice(const KernelArgs& args, void* at, size_t bytes) {
  if (bytes == 0) return OkStatus();
  return CheckCuda(cudaMemsetAsync(at, 0, bytes, StreamOf(args).stream), "fill with zeros");
}

// ---- Elements are converted to f32 for arithmetic -----------------------------------------------

__device__ inline float Wide(float x) { return x; }
__device__ inline float Wide(__half x) { return __half2float(x); }
__device__ inline float Wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T Narrow(float x) {  // converts f32 to T, rounded to nearest even
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

// Prepares one of three instances of a kernel, selected by the type of input 0.
template <PrepareFn f32, PrepareFn f16, PrepareFn bf16>
StatusOr<Kernel> ByType(const OpView& view, const PrepareContext& ctx) {
  switch (view.in(0).dtype) {
    case DType::kF32:
      return f32(view, ctx);
    case DType::kF16:
      return f16(view, ctx);
    case DType::kBF16:
      return bf16(view, ctx);
    default:
      return Unimplemented("this kernel supports only floating-point tensors");
  }
}

// ---- Grid-stride loops --------------------------------------------------------------------------

inline constexpr int kCudaThreads = 256;

// Returns the number of blocks for n elements. The number is limited, because 4096 blocks occupy
// any device.
inline unsigned CudaBlocks(int64_t n, int64_t per_block = kCudaThreads) {
  constexpr int64_t kBlocksMax = 4096;
  return static_cast<unsigned>(std::clamp<int64_t>((n + per_block - 1) / per_block, 1, kBlocksMax));
}

__device__ inline int64_t GridIndex() {
  return blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
}
__device__ inline int64_t GridSize() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// Returns a / b. a and b must not be negative. Uses 32-bit division if a and b fit in 32 bits,
// because it is several times as fast.
__device__ inline int64_t Quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) != 0) return a / b;
  return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
}
__device__ inline int64_t Remainder(int64_t a, int64_t b) { return a - Quotient(a, b) * b; }

template <typename Fn>
__global__ void ForEachKernel(Fn fn, int64_t n) {
  for (int64_t i = GridIndex(); i < n; i += GridSize()) fn(i);
}

// Calls fn(i) for every i in [0, n), on the device.
template <typename Fn>
Status ForEach(const KernelArgs& args, int64_t n, const Fn& fn) {
  if (n == 0) return OkStatus();
  return Launch(args, CudaBlocks(n), kCudaThreads, ForEachKernel<Fn>, fn, n);
}

// ---- Elementwise maps ---------------------------------------------------------------------------

template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

template <typename T, int inputs>
struct MapPointers {
  const T* in[inputs];
  T* out;
};

// Computes `fn` for all elements, 16 bytes at a time if all pointers are aligned to 16 bytes.
template <typename T, int inputs, typename Fn>
__global__ void MapKernel(Fn fn, MapPointers<T, inputs> p, int64_t n, bool aligned) {
  constexpr int kPack = 16 / sizeof(T);
  using Packed = Pack<T, kPack>;
  const int64_t packs = aligned ? n / kPack : 0;
  for (int64_t i = GridIndex(); i < packs; i += GridSize()) {
    Packed x[inputs], out;
    for (int k = 0; k < inputs; ++k) x[k] = reinterpret_cast<const Packed*>(p.in[k])[i];
    for (int e = 0; e < kPack; ++e) {
      float v[inputs];
      for (int k = 0; k < inputs; ++k) v[k] = Wide(x[k].at[e]);
      out.at[e] = Narrow<T>(fn(v));
    }
    reinterpret_cast<Packed*>(p.out)[i] = out;
  }
  for (int64_t i = packs * kPack + GridIndex(); i < n; i += GridSize()) {
    float v[inputs];
    for (int k = 0; k < inputs; ++k) v[k] = Wide(p.in[k][i]);
    p.out[i] = Narrow<T>(fn(v));
  }
}

// Computes out[i] = fn(elements i of all inputs, as an array of floats), on the device.
template <typename T, int inputs, typename Fn>
Status Map(const KernelArgs& args, const std::array<const T*, inputs>& in, T* out, int64_t n,
           const Fn& fn) {
  if (n == 0) return OkStatus();
  MapPointers<T, inputs> p{{}, out};
  auto bits = reinterpret_cast<uintptr_t>(out);
  for (int k = 0; k < inputs; ++k) {
    p.in[k] = in[k];
    bits |= reinterpret_cast<uintptr_t>(in[k]);
  }
  return Launch(args, CudaBlocks(n, kCudaThreads * 16 / sizeof(T)), kCudaThreads,
                MapKernel<T, inputs, Fn>, fn, p, n, bits % 16 == 0);
}

// Records an error that a kernel found in the data. Only the first error of all threads is stored.
__device__ inline void Blame(CudaFault* fault, CudaFault::Input input, int64_t at, int64_t value,
                             int64_t limit) {
  if (atomicCAS(&fault->taken, 0, 1) != 0) return;
  fault->input = input;
  fault->at = at;
  fault->value = value;
  fault->limit = limit;
}

}  // namespace tandem::ops
