#include "common/tensor/reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/base/check.h"
#include "common/base/require.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tandem {

const char* Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kProd:
      return "prod";
  }
  return "an unknown reduction";
}
namespace {

struct Sum {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
struct Prod {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    } else {
      return a * b;
    }
  }
};
struct Max {
  template <typename T>
  static T Of(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
};
struct Min {
  template <typename T>
  static T Of(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
};

// The operation Op with its two operands swapped.
template <typename Op>
struct Swapped {
  template <typename T>
  static T Of(T a, T b) {
    return Op::Of(b, a);
  }
};

template <typename Op, typename T>
void Plain(T* __restrict acc, const T* __restrict in, size_t count) {
  for (size_t i = 0; i < count; ++i) acc[i] = Op::template Of<T>(acc[i], in[i]);
}

// Converts as in common/tensor/types.h, but in a form that the compiler vectorises.
inline float FromBF16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
inline uint16_t ToBF16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t nan = (u >> 16) | 0x40u;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

template <typename Op>
void BF16(uint16_t* __restrict acc, const uint16_t* __restrict in, size_t count) {
  for (size_t i = 0; i < count; ++i) acc[i] = ToBF16(Op::Of(FromBF16(acc[i]), FromBF16(in[i])));
}

template <typename Op>
void F16(uint16_t* acc, const uint16_t* in, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    acc[i] = F32ToF16(Op::Of(F16ToF32(acc[i]), F16ToF32(in[i])));
  }
}

#if defined(__x86_64__)
inline __attribute__((target("avx"))) __m256 Of8(Sum, __m256 a, __m256 b) {
  return _mm256_add_ps(a, b);
}
inline __attribute__((target("avx"))) __m256 Of8(Prod, __m256 a, __m256 b) {
  return _mm256_mul_ps(a, b);
}
// Selects a value as Max::Of and Min::Of do: `a` if it is larger (Max) or smaller (Min), or is NaN.
inline __attribute__((target("avx"))) __m256 Of8(Max, __m256 a, __m256 b) {
  const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  return _mm256_blendv_ps(b, a, _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ), nan));
}
inline __attribute__((target("avx"))) __m256 Of8(Min, __m256 a, __m256 b) {
  const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  return _mm256_blendv_ps(b, a, _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), nan));
}
template <typename Op>
inline __attribute__((target("avx"))) __m256 Of8(Swapped<Op>, __m256 a, __m256 b) {
  return Of8(Op{}, b, a);
}

// Returns whether the processor has F16C. It queries the processor directly, because
// __builtin_cpu_supports of clang 14 does not know "f16c".
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}

// Reduces f16 vectors with F16C instructions, because F16ToF32 takes a dozen instructions per
// element.
template <typename Op>
__attribute__((target("avx,f16c"))) void F16Vector(uint16_t* acc, const uint16_t* in,
                                                   size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(acc + i)));
    const __m256 b = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(acc + i),
                     _mm256_cvtps_ph(Of8(Op{}, a, b), _MM_FROUND_TO_NEAREST_INT));
  }
  F16<Op>(acc + i, in + i, count - i);
}
#endif

// Adds f32 inputs in one pass over all inputs and outputs, in whole vectors of kBytes bytes.
// Returns the number of elements that were added. Gradients use this function. It accesses each
// cache line only once, because memory bandwidth limits its speed.
template <int kBytes>
[[gnu::always_inline]] inline size_t SumAcross(std::span<const std::byte* const> in,
                                               std::span<std::byte* const> out, size_t count) {
  typedef float Vector __attribute__((vector_size(kBytes)));
  constexpr size_t kVectors = 4, kStep = kVectors * kBytes;
  const size_t end = count * sizeof(float) / kStep * kStep;
  for (size_t at = 0; at < end; at += kStep) {
    Vector sum[kVectors], next;
    for (size_t v = 0; v < kVectors; ++v) std::memcpy(&sum[v], in[0] + at + v * kBytes, kBytes);
    for (size_t k = 1; k < in.size(); ++k) {
      for (size_t v = 0; v < kVectors; ++v) {
        std::memcpy(&next, in[k] + at + v * kBytes, kBytes);
        sum[v] += next;
      }
    }
    for (std::byte* const to : out) {
      for (size_t v = 0; v < kVectors; ++v) std::memcpy(to + at + v * kBytes, &sum[v], kBytes);
    }
  }
  return end / sizeof(float);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) size_t SumAcross512(std::span<const std::byte* const> in,
                                                       std::span<std::byte* const> out,
                                                       size_t count) {
  return SumAcross<64>(in, out, count);
}
__attribute__((target("avx2"))) size_t SumAcross256(std::span<const std::byte* const> in,
                                                    std::span<std::byte* const> out, size_t count) {
  return SumAcross<32>(in, out, count);
}
#endif

size_t SumAcrossBest(std::span<const std::byte* const> in, std::span<std::byte* const> out,
                     size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return SumAcross512(in, out, count);
  if (__builtin_cpu_supports("avx2")) return SumAcross256(in, out, count);
#endif
  return SumAcross<16>(in, out, count);
}

template <typename Op>
void ByType(DType dtype, void* acc, const void* in, size_t count) {
  const auto run = [&]<typename T>(void (*loop)(T*, const T*, size_t)) {
    loop(static_cast<T*>(acc), static_cast<const T*>(in), count);
  };
  switch (dtype) {
    case DType::kF32:
      return run(&Plain<Op, float>);
    case DType::kI32:
      return run(&Plain<Op, int32_t>);
    case DType::kI64:
      return run(&Plain<Op, int64_t>);
    case DType::kBF16:
      return run(&BF16<Op>);
    case DType::kF16:
#if defined(__x86_64__)
      if (HasF16c()) return run(&F16Vector<Op>);
#endif
      return run(&F16<Op>);
    case DType::kU8:
      break;
  }
  LOG(FATAL) << "no reduction of " << Name(dtype);
}

template <typename Op>
void ByOrder(DType dtype, void* acc, const void* in, size_t count, bool acc_first) {
  if (acc_first) return ByType<Op>(dtype, acc, in, count);
  return ByType<Swapped<Op>>(dtype, acc, in, count);
}

}  // namespace

bool CanReduce(DType dtype) { return dtype != DType::kU8; }

void ReduceInto(ReduceOp op, DType dtype, void* acc, const void* in, size_t count, bool acc_first) {
  TD_REQUIRE(CanReduce(dtype));
  switch (op) {
    case ReduceOp::kSum:
      return ByOrder<Sum>(dtype, acc, in, count, acc_first);
    case ReduceOp::kMax:
      return ByOrder<Max>(dtype, acc, in, count, acc_first);
    case ReduceOp::kMin:
      return ByOrder<Min>(dtype, acc, in, count, acc_first);
    case ReduceOp::kProd:
      return ByOrder<Prod>(dtype, acc, in, count, acc_first);
  }
}

namespace {

constexpr size_t kBlockBytes = 4 << 10;  // size of a block in bytes; a block stays in the L1 cache

// Reduces `count` elements of all inputs, from byte `at` on, as a binary tree. The result is in the
// first of `blocks`. The other blocks are scratch memory, one for each level of the tree.
void TreeOf(ReduceOp op, DType dtype, std::span<const std::byte* const> in, size_t at, size_t count,
            std::byte* blocks) {
  std::memcpy(blocks, in[0] + at, count * SizeOf(dtype));
  // At this point the first `done` inputs are reduced.
  for (size_t done = 1; done < in.size(); done *= 2) {
    const auto next = in.subspan(done, std::min(done, in.size() - done));
    const std::byte* from = next[0] + at;
    if (next.size() > 1) {
      TreeOf(op, dtype, next, at, count, blocks + kBlockBytes);
      from = blocks + kBlockBytes;
    }
    ReduceInto(op, dtype, blocks, from, count, true);
  }
}

}  // namespace

void ReduceAcross(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                  std::span<std::byte* const> out, size_t count) {
  TD_REQUIRE(CanReduce(dtype) && !in.empty());
  alignas(64) std::byte block[kBlockBytes];
  const size_t element = SizeOf(dtype), bytes = count * element;
  const bool gradients = op == ReduceOp::kSum && dtype == DType::kF32;
  const size_t done = gradients ? SumAcrossBest(in, out, count) * element : 0;
  for (size_t at = done; at < bytes; at += kBlockBytes) {
    const size_t n = std::min(kBlockBytes, bytes - at);
    std::memcpy(block, in[0] + at, n);
    for (const std::byte* from : in.subspan(1)) {
      ReduceInto(op, dtype, block, from + at, n / element, true);
    }
    for (std::byte* to : out) std::memcpy(to + at, block, n);
  }
}

void ReduceTree(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                std::span<std::byte* const> out, size_t count) {
  // With up to 3 inputs the tree has the same order as ReduceAcross.
  if (in.size() <= 3) return ReduceAcross(op, dtype, in, out, count);
  constexpr size_t kLevelsMax = 20;
  CHECK_LE(in.size(), size_t{1} << (kLevelsMax - 1));
  alignas(64) std::byte blocks[kLevelsMax * kBlockBytes];
  const size_t element = SizeOf(dtype), bytes = count * element;
  for (size_t at = 0; at < bytes; at += kBlockBytes) {
    const size_t n = std::min(kBlockBytes, bytes - at);
    TreeOf(op, dtype, in, at, n / element, blocks);
    for (std::byte* to : out) std::memcpy(to + at, blocks, n);
  }
}

}  // namespace tandem
