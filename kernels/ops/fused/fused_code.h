// Code that all generated kernels include (fused_source.h). NVRTC compiles this code at run time.
// The generated code defines `Bodies` with
//   template <int n> static __device__ void Run(int body, void* const* at, int64_t i);
//   static __device__ void End(int body, void* const* at);
// Run processes n elements, starting at element i. End does the work that a group needs once, after
// all its elements.
#pragma once

#if defined(__CUDACC_RTC__)  // NVRTC knows some functions only by CUDA's names
#define __builtin_copysignf copysignf
#define __builtin_fabsf fabsf
#define __builtin_memcpy memcpy
#define __builtin_sqrtf sqrtf
#endif

#include "kernels/ops/formulas/activation.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/fused/fused_elements.h"
#include "kernels/ops/fused/fused_table.h"

namespace tandem::ops {
namespace {

template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

// Reads elements i to i + n - 1 with one load. REQUIRES: i is a multiple of n. The code indexes an
// array of packs, because NVRTC compiles other forms to n loads.
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

// Returns x after rounding to type T.
template <typename T>
__device__ float Round(float x) {
  return Element<T>::Wide(Element<T>::Narrow(x));
}

// Returns the element of a tensor with one element, as f32.
template <typename T>
__device__ float First(const void* from) {
  return Element<T>::Wide(*static_cast<const T*>(from));
}
template <typename T>
__device__ void PutFirst(void* to, float x) {
  *static_cast<T*>(to) = Element<T>::Narrow(x);
}

// Returns the group to which `tile` belongs. Groups without tiles are never returned.
template <typename Table>
__device__ const FusedGroup& GroupOf(const Table& t, uint32_t tile) {
  uint32_t begin = 0, end = t.groups;
  while (end - begin > 1) {
    const uint32_t middle = (begin + end) / 2;
    (t.group[middle].first_tile <= tile ? begin : end) = middle;
  }
  return t.group[begin];
}

// Runs all groups. Each block processes one tile after another.
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

// Does the work that groups need after all elements. There is one thread per group.
template <typename Bodies, typename Table>
__device__ void EndFused(const Table& t) {
  const uint32_t g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g < t.groups) Bodies::End(t.group[g].body, t.at + t.group[g].first);
}

}  // namespace
}  // namespace tandem::ops
