// Sums on the device. The order of the additions depends only on the sizes. Therefore the same
// inputs give the same bits.
#pragma once

#include "kernels/ops/cuda/cuda_launch.h"

namespace tandem::ops {

// Combines one value of each thread of the block. Every thread gets the result. `none` is the
// neutral element of `combine`. REQUIRES: all threads of the block call this function; the number
// of threads is a multiple of 32 and at most 1024.
template <typename V, typename Combine>
__device__ V BlockCombine(V value, V none, const Combine& combine) {
  __shared__ V parts[32];
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  }
  __syncthreads();  // wait until all threads have read the parts of the last call
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : none;
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  }
  return value;
}

template <typename V>
__device__ V BlockSum(V value) {
  return BlockCombine(value, V{0}, [](V a, V b) { return a + b; });
}
__device__ inline float BlockMax(float value) {
  const float none = -__int_as_float(0x7F800000);
  return BlockCombine(value, none, [](float a, float b) { return a > b ? a : b; });
}

// Prefix sums over one value of each thread of the block. `before`: sum of the values of all
// threads before this thread. `all`: sum of all values. The requirements are those of BlockCombine.
template <typename V>
struct BlockPrefix {
  V before = 0, all = 0;

  __device__ explicit BlockPrefix(V value) {
    __shared__ V parts[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    V sum = value;
    for (unsigned step = 1; step < 32; step *= 2) {
      const V other = __shfl_up_sync(0xFFFFFFFFu, sum, step);
      if (lane >= step) sum += other;
    }
    __syncthreads();  // wait until all threads have read the parts of the last call
    if (lane == 31) parts[warp] = sum;
    __syncthreads();
    before = sum - value;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) {
      if (w < warp) before += parts[w];
      all += parts[w];
    }
  }
};

// Returns the number of threads for summing a row of n elements.
inline unsigned RowThreads(int64_t n) {
  return n <= 32 ? 32 : n <= 256 ? 128 : n <= 4096 ? 256 : 512;
}

template <typename V, typename Fn, typename Put>
__global__ void RowSumsKernel(int64_t rows, int64_t n, Fn fn, Put put) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    V sum{0};
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += fn(r, i);
    sum = BlockSum(sum);
    if (threadIdx.x == 0) put(r, sum);
  }
}

// Calls put(r, sum over i < n of fn(r, i)) for each row r. V is the type of the sums.
template <typename V, typename Fn, typename Put>
Status RowSums(const KernelArgs& args, int64_t rows, int64_t n, const Fn& fn, const Put& put) {
  if (rows == 0) return OkStatus();
  return Launch(args, CudaBlocks(rows, 1), RowThreads(n), RowSumsKernel<V, Fn, Put>, rows, n, fn,
                put);
}

// Sums columns: out[j] = sum over i of fn(i, j). Chunks of rows are summed first, then the sums of
// the chunks are added.
struct ColumnSums {
  int64_t rows = 0, cols = 0;

  int64_t chunks() const { return std::clamp<int64_t>((rows + 63) / 64, 1, 128); }
  size_t scratch_bytes() const { return static_cast<size_t>(chunks() * cols) * sizeof(float); }

  template <typename Fn, typename Put>
  Status Run(const KernelArgs& args, void* scratch, const Fn& fn, const Put& put) const;
};

inline constexpr int kColumnsWide = 32, kColumnsHigh = 8;

// Each block sums kColumnsWide columns over one chunk of rows, starting at row blockIdx.y * chunk.
template <typename Fn, typename Put>
__global__ void ColumnSumsKernel(int64_t rows, int64_t cols, int64_t chunk, Fn fn, Put put) {
  __shared__ float parts[kColumnsHigh][kColumnsWide];
  const int64_t j = blockIdx.x * int64_t{kColumnsWide} + threadIdx.x;
  const int64_t begin = blockIdx.y * chunk;
  const int64_t end = begin + chunk < rows ? begin + chunk : rows;
  float sum = 0.0f;
  if (j < cols) {
    for (int64_t i = begin + threadIdx.y; i < end; i += kColumnsHigh) sum += fn(i, j);
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= cols) return;
  for (int k = 1; k < kColumnsHigh; ++k) sum += parts[k][threadIdx.x];
  put(blockIdx.y, j, sum);
}

template <typename Fn, typename Put>
Status SumColumns(const KernelArgs& args, int64_t rows, int64_t cols, int64_t chunks, const Fn& fn,
                  const Put& put) {
  const dim3 blocks(static_cast<unsigned>((cols + kColumnsWide - 1) / kColumnsWide),
                    static_cast<unsigned>(chunks));
  return Launch(args, blocks, dim3(kColumnsWide, kColumnsHigh), ColumnSumsKernel<Fn, Put>, rows,
                cols, (rows + chunks - 1) / chunks, fn, put);
}

template <typename Fn, typename Put>
Status ColumnSums::Run(const KernelArgs& args, void* scratch, const Fn& fn, const Put& put) const {
  if (cols == 0) return OkStatus();
  const int64_t n = chunks(), width = cols;
  const auto last = [put] __device__(int64_t, int64_t j, float sum) { put(j, sum); };
  if (n == 1) return SumColumns(args, rows, cols, 1, fn, last);
  auto* partial = static_cast<float*>(scratch);
  const auto keep = [partial, width] __device__(int64_t c, int64_t j, float sum) {
    partial[c * width + j] = sum;
  };
  const auto from = [partial, width] __device__(int64_t c, int64_t j) {
    return partial[c * width + j];
  };
  TD_RETURN_IF_ERROR(SumColumns(args, rows, cols, n, fn, keep));
  return SumColumns(args, n, cols, 1, from, last);
}

// Sums the elements (o, i, j) of a tensor [outer, len, inner] over o and j, one sum per i. Examples
// are sums per channel of images, and sums over dimensions that a broadcast repeats.
struct MiddleSums {
  int64_t outer, len, inner;

  ColumnSums columns() const { return {outer, len}; }
  size_t scratch_bytes() const { return inner == 1 ? columns().scratch_bytes() : 0; }

  // Calls fn(position, i), which returns the element at `position`, and put(i, sum), which stores a
  // sum.
  template <typename Fn, typename Put>
  Status Run(const KernelArgs& args, void* scratch, const Fn& fn, const Put& put) const {
    const int64_t l = len, n = inner;
    if (inner == 1) {
      const auto at = [fn, l] __device__(int64_t o, int64_t i) { return fn(o * l + i, i); };
      return columns().Run(args, scratch, at, put);
    }
    const auto at = [fn, l, n] __device__(int64_t i, int64_t k) {
      const int64_t o = Quotient(k, n);
      return fn((o * l + i) * n + (k - o * n), i);
    };
    return RowSums<float>(args, len, outer * inner, at, put);
  }
};

}  // namespace tandem::ops
