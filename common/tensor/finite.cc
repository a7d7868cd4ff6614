#include "common/tensor/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem {
namespace {

constexpr int32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

// In whole vectors of kBytes, several at a time; gives how many values it has looked at, all of
// them where they are finite.
template <int kBytes>
[[gnu::always_inline]] inline size_t FiniteVectors(const float* values, size_t count) {
  typedef int32_t Vector __attribute__((vector_size(kBytes)));
  constexpr size_t kVectors = 4, kStep = kVectors * kBytes / sizeof(float);
  const size_t end = count / kStep * kStep;
  Vector bad[kVectors] = {};
  for (size_t at = 0; at < end; at += kStep) {
    for (size_t v = 0; v < kVectors; ++v) {
      Vector bits;
      std::memcpy(&bits, values + at + v * kBytes / sizeof(float), kBytes);
      bad[v] |= (bits & kMagnitude) >= kInfinity;
    }
  }
  const Vector any = (bad[0] | bad[1]) | (bad[2] | bad[3]);
  int32_t lanes[kBytes / sizeof(int32_t)];
  std::memcpy(lanes, &any, sizeof(lanes));
  return std::ranges::all_of(lanes, [](int32_t lane) { return lane == 0; }) ? end : 0;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) size_t FiniteVectors512(const float* values, size_t count) {
  return FiniteVectors<64>(values, count);
}
__attribute__((target("avx2"))) size_t FiniteVectors256(const float* values, size_t count) {
  return FiniteVectors<32>(values, count);
}
#endif

size_t FiniteVectorsBest(const float* values, size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return FiniteVectors512(values, count);
  if (__builtin_cpu_supports("avx2")) return FiniteVectors256(values, count);
#endif
  return FiniteVectors<16>(values, count);
}

bool IsFinite(float value) { return std::isfinite(value); }

}  // namespace

bool AllFinite(std::span<const float> values) {
  const size_t looked_at = FiniteVectorsBest(values.data(), values.size());
  return std::ranges::all_of(values.subspan(looked_at), IsFinite);
}

int64_t FirstNotFinite(std::span<const float> values) {
  if (AllFinite(values)) return -1;
  const auto bad = std::ranges::find_if_not(values, IsFinite);
  return bad == values.end() ? -1 : bad - values.begin();  // shared ones may have changed meanwhile
}

bool CopyFinite(const float* from, float* to, size_t count) {
  constexpr size_t kPiece = 4096;  // 16 KiB, of the smallest caches' 32
  bool finite = true;
  for (size_t at = 0; at < count; at += kPiece) {
    const size_t n = std::min(kPiece, count - at);
    std::memcpy(to + at, from + at, n * sizeof(float));
    finite = finite && AllFinite({from + at, n});
  }
  return finite;
}

}  // namespace tandem
