#include "common/tensor/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem {
namespace {

constexpr int32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

// The result of FiniteVectors, which checks values with several vectors of kBytes bytes at a time.
// If kCopies is true, FiniteVectors also copies the values to `copy`.
struct Looked {
  size_t count;  // number of values that were checked
  bool finite;
};
template <int kBytes, bool kCopies>
[[gnu::always_inline]] inline Looked FiniteVectors(const float* values, size_t count, float* copy) {
  typedef int32_t Vector __attribute__((vector_size(kBytes)));
  constexpr size_t kVectors = 4, kValues = kBytes / sizeof(float), kStep = kVectors * kValues;
  const size_t end = count / kStep * kStep;
  Vector bad[kVectors] = {};
  for (size_t at = 0; at < end; at += kStep) {
    for (size_t v = 0; v < kVectors; ++v) {
      Vector bits;
      std::memcpy(&bits, values + at + v * kValues, kBytes);
      if constexpr (kCopies) std::memcpy(copy + at + v * kValues, &bits, kBytes);
      bad[v] |= (bits & kMagnitude) >= kInfinity;
    }
  }
  const Vector any = (bad[0] | bad[1]) | (bad[2] | bad[3]);
  int32_t lanes[kBytes / sizeof(int32_t)];
  std::memcpy(lanes, &any, sizeof(lanes));
  return {end, std::ranges::all_of(lanes, [](int32_t lane) { return lane == 0; })};
}

#if defined(__x86_64__)
template <bool kCopies>
__attribute__((target("avx512f"))) Looked FiniteVectors512(const float* values, size_t count,
                                                           float* copy) {
  return FiniteVectors<64, kCopies>(values, count, copy);
}
template <bool kCopies>
__attribute__((target("avx2"))) Looked FiniteVectors256(const float* values, size_t count,
                                                        float* copy) {
  return FiniteVectors<32, kCopies>(values, count, copy);
}
#endif

template <bool kCopies>
Looked FiniteVectorsBest(const float* values, size_t count, float* copy) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return FiniteVectors512<kCopies>(values, count, copy);
  if (__builtin_cpu_supports("avx2")) return FiniteVectors256<kCopies>(values, count, copy);
#endif
  return FiniteVectors<16, kCopies>(values, count, copy);
}

bool IsFinite(float value) { return std::isfinite(value); }

// Returns the position of the first number with all exponent bits set (NaN or infinite); -1: none.
template <typename Bits>
int64_t FirstWith(const void* data, Bits exponent, int64_t numel) {
  const auto* at = static_cast<const Bits*>(data);
  for (int64_t i = 0; i < numel; ++i) {
    if ((at[i] & exponent) == exponent) return i;
  }
  return -1;
}

}  // namespace

bool AllFinite(std::span<const float> values) {
  const Looked looked = FiniteVectorsBest<false>(values.data(), values.size(), nullptr);
  return looked.finite && std::ranges::all_of(values.subspan(looked.count), IsFinite);
}

int64_t FirstNotFinite(std::span<const float> values) {
  if (AllFinite(values)) return -1;
  const auto bad = std::ranges::find_if_not(values, IsFinite);
  // The result may be -1 here, because another thread may have changed the value.
  return bad == values.end() ? -1 : bad - values.begin();
}

int64_t FirstNotFinite(const void* data, DType dtype, int64_t numel) {
  switch (dtype) {
    case DType::kF32:
      return FirstWith<uint32_t>(data, 0x7f800000, numel);
    case DType::kF16:
      return FirstWith<uint16_t>(data, 0x7c00, numel);
    case DType::kBF16:
      return FirstWith<uint16_t>(data, 0x7f80, numel);
    default:
      return -1;
  }
}

bool CopyFinite(const float* from, float* to, size_t count) {
  const Looked looked = FiniteVectorsBest<true>(from, count, to);
  const std::span<const float> rest(from + looked.count, count - looked.count);
  std::ranges::copy(rest, to + looked.count);
  return looked.finite && std::ranges::all_of(rest, IsFinite);
}

}  // namespace tandem
