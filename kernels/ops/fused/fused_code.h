// What generated kernels (fused_source.h) have in common. Compiled at run time only: the generated
// code includes it, and gives `Bodies` with
//   template <int n> static __device__ void Run(int body, void* const* at, int64_t i);
//   static __device__ void End(int body, void* const* at);
// the n elements from i on, and what comes once for a group behind all its elements.
#pragma once

#if defined(__CUDACC_RTC__)  // it has these by CUDA's names alone
#define __builtin_copysignf copysignf
#define __builtin_fabsf fabsf
#define __builtin_memcpy memcpy
#define __builtin_sqrtf sqrtf
#endif

#include "kernels/ops/formulas/activation.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/fused/fused_elements.h"
#include "kernels/ops/fused/fused_table.h"

namespace tandem {
namespace {

template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

// Elements i to i + n - 1, in one access; i is a multiple of n. NVRTC stores by element what is not
// indexed as an array of packs.
template <typename T, int n>
__device__ void Load(const void* from, int64_t i, float (&to)[n]) {
  const Pack<T, n> pack = static_cast<const Pack<T, n>*>(from)[static_cast<uint64_t>(i) / n];
  for (int e = 0; e < n; ++e) to[e] = Element<T>::Wide(pack.at[e]);
}

template <typename T, int n>
__device__ void Store(void* to, int64_t i, const float (&from)[n]) {
  Pack<T, n> pack;
  for (int e = 0; e < n; ++e) pack.at[e] = Element<T>::Narrow(from[e]);
  static_cast<Pack<T, n>*>(to)[static_cast<uint64_t>(i) / n] = pack;
}

// What a tensor of type T would keep of x.
template <typename T>
__device__ float Round(float x) {
  return Element<T>::Wide(Element<T>::Narrow(x));
}

// The only element of a tensor.
template <typename T>
__device__ float First(const void* from) {
  return Element<T>::Wide(*static_cast<const T*>(from));
}
template <typename T>
__device__ void PutFirst(void* to, float x) {
  *static_cast<T*>(to) = Element<T>::Narrow(x);
}

// The last group that begins at or before `tile`; empty ones are none.
template <typename Table>
__device__ const FusedGroup& GroupOf(const Table& t, uint32_t tile) {
  uint32_t begin = 0, end = t.groups;
  while (end - begin > 1) {
    const uint32_t middle = (begin + end) / 2;
    (t.group[middle].first_tile <= tile ? begin : end) = middle;
  }
  return t.group[begin];
}

// A block takes tile after tile.
template <typename Bodies, typename Table>
__device__ void RunFused(const Table& t) {
  for (uint32_t tile = blockIdx.x; tile < t.tiles; tile += gridDim.x) {
    const FusedGroup& g = GroupOf(t, tile);
    void* const* const at = t.at + g.first;
    const int64_t begin = (tile - g.first_tile) * kFusedTile;
    const int64_t end = begin + kFusedTile < g.elements ? begin + kFusedTile : g.elements;
    const int64_t packs = g.packed ? (end - begin) / kFusedPack : 0;
    for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
      Bodies::template Run<kFusedPack>(g.body, at, begin + i * kFusedPack);
    }
    for (int64_t i = begin + packs * kFusedPack + threadIdx.x; i < end; i += blockDim.x) {
      Bodies::template Run<1>(g.body, at, i);
    }
  }
}

// A thread for each group.
template <typename Bodies, typename Table>
__device__ void EndFused(const Table& t) {
  const uint32_t g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g < t.groups) Bodies::End(t.group[g].body, t.at + t.group[g].first);
}

}  // namespace
}  // namespace tandem
