#include "collective/reduce.h"

#include <bit>
#include <cstdint>
#include <type_traits>

#include "common/base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tandem {
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

// The same reduction with its operands in the other order.
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

// As common/tensor/types.h does it, in a form that the compiler turns into vector code.
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
// As Max::Of and Min::Of choose: `a` where it wins or is NaN.
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

// Asked of the processor itself: clang 14 knows no such name for __builtin_cpu_supports.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}

// One element at a time F16ToF32 takes a dozen instructions.
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

}  // namespace tandem
