// CUB's sort of pairs by key, as far as kernels/ops uses it; see cuda_runtime.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/cuda_on_host/cuda_runtime.h"

namespace cub {

struct DeviceRadixSort {
  // Stable sort by the bits [begin_bit, end_bit) of the keys. Without `temp` it returns the needed
  // bytes; with `temp` it fails if there are fewer.
  template <typename Key, typename Value>
  static cudaError_t SortPairs(void* temp, size_t& bytes, const Key* keys, Key* keys_out,
                               const Value* values, Value* values_out, int64_t n, int begin_bit,
                               int end_bit, cudaStream_t stream) {
    const size_t needed = 1 + static_cast<size_t>(n) * 2;
    if (temp == nullptr) {
      bytes = needed;
      return cudaSuccess;
    }
    if (bytes < needed) return cudaErrorInvalidValue;
    return tandem::cuda_on_host::Put(stream, "kernel", [=] {
      const auto part = [=](Key key) {
        return end_bit - begin_bit == 8 * sizeof(Key)
                   ? key
                   : (key >> begin_bit) & ((Key{1} << (end_bit - begin_bit)) - 1);
      };
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return part(keys[a]) < part(keys[b]); });
      for (int64_t i = 0; i < n; ++i) {
        keys_out[i] = keys[order[static_cast<size_t>(i)]];
        values_out[i] = values[order[static_cast<size_t>(i)]];
      }
      std::memset(temp, 0xA5, needed);
    });
  }
};

}  // namespace cub
