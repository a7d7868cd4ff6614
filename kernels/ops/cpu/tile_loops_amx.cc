// The tile loops for AMX. This file is compiled for AMX and AVX-512. AmxTileLoops checks that the
// machine supports both instruction sets. No other function of this file may run before this check.
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/ops/cpu/tile_loops.h"

namespace tandem::ops {
namespace {

constexpr int64_t kHalf = 16;  // number of rows of a tile

// 32 numbers, split into three planes of bf16.
struct Split {
  __m512i plane[kTilePlanes];
};

// Returns 16 numbers of x, rounded to bf16, and leaves the remainders in x. Ties round away from
// zero, which costs no precision because the remainder is exact. A NaN stays in the remainder.
__m512i TakeBf16(__m512& x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i upper = _mm512_and_si512(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)),
                                         _mm512_set1_epi32(static_cast<int>(0xffff0000)));
  x = _mm512_sub_ps(x, _mm512_castsi512_ps(upper));
  return upper;
}

// Returns the upper 16 bits of each number: first of the numbers of `low`, then of the numbers of
// `high`.
__m512i OneBehindTheOther(__m512i low, __m512i high) {
  return reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(_mm512_castsi512_ps(high), _mm512_castsi512_ps(low)));
}
// Returns the upper 16 bits of each number, interleaved from `low` and `high`.
__m512i InTurns(__m512i low, __m512i high) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  // The operand of ternarylogic that selects the function (a and b) or c.
  constexpr int kSelect = 0xea;
  return _mm512_ternarylogic_epi32(high, upper, _mm512_srli_epi32(low, 16), kSelect);
}

template <__m512i (*join)(__m512i, __m512i)>
Split SplitF32(__m512 low, __m512 high) {
  Split s;
  for (int p = 0; p < 2; ++p) {
    const __m512i l = TakeBf16(low);
    s.plane[p] = join(l, TakeBf16(high));
  }
  s.plane[2] = join(_mm512_castps_si512(low), _mm512_castps_si512(high));
  return s;
}

uint32_t Mask(int64_t n) { return n >= 32 ? ~0u : n <= 0 ? 0u : (1u << n) - 1; }

// Loads and splits the first `n` of 32 numbers at `x`. The other numbers become zero.
Split Load(const float* x, int64_t n) {
  const uint32_t mask = Mask(n);
  return SplitF32<OneBehindTheOther>(
      _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), x),
      _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), x + kHalf));
}

// Loads and splits the first `n` of 16 numbers at `x` and at `y`, interleaved. If y is nullptr,
// zeros replace the numbers of y.
Split LoadInTurns(const float* x, const float* y, int64_t n) {
  const auto mask = static_cast<__mmask16>(Mask(n));
  return SplitF32<InTurns>(_mm512_maskz_loadu_ps(mask, x),
                           y == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, y));
}

// Transposes a tile of 16 x 16 dwords: dword j of row i becomes dword i of row j.
void Transpose(__m512i* tile) {
  __m512i rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_load_si512(tile + i);
  __m512i a[16];
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
    rows[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
    rows[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
    rows[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 2; ++half) {
      const __m512i x = rows[8 * half + i], y = rows[8 * half + 4 + i];
      a[8 * half + i] = _mm512_shuffle_i32x4(x, y, 0x88);
      a[8 * half + 4 + i] = _mm512_shuffle_i32x4(x, y, 0xdd);
    }
  }
  for (int i = 0; i < 8; ++i) {
    _mm512_store_si512(tile + i, _mm512_shuffle_i32x4(a[i], a[8 + i], 0x88));
    _mm512_store_si512(tile + 8 + i, _mm512_shuffle_i32x4(a[i], a[8 + i], 0xdd));
  }
}

// Packs one tile per plane: sides [side, side + 16) and k [at, at + 32). The tiles of two planes
// are two tiles apart.
void PackTile(const TileSource& source, int64_t side, int64_t sides, int64_t at, int64_t k,
              bool columns, std::byte* tile) {
  const auto plane = [tile](int p) {
    return reinterpret_cast<__m512i*>(tile + static_cast<size_t>(2 * p) * kTileBytes);
  };
  for (int64_t i = 0; i < 16; ++i) {
    Split s{};
    if (!source.k_strided) {
      if (side + i < sides) s = Load(source.data + (side + i) * source.stride + at, k - at);
    } else if (at + 2 * i < k) {
      const float* x = source.data + (at + 2 * i) * source.stride + side;
      const float* y = x + source.stride;
      if (at + 2 * i + kTilePanel + 1 < k) {
        _mm_prefetch(reinterpret_cast<const char*>(x + kTilePanel * source.stride), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(y + kTilePanel * source.stride), _MM_HINT_T0);
      }
      s = LoadInTurns(x, at + 2 * i + 1 < k ? y : nullptr, sides - side);
    }
    for (int p = 0; p < kTilePlanes; ++p) _mm512_store_si512(plane(p) + i, s.plane[p]);
  }
  if (columns == source.k_strided) return;
  for (int p = 0; p < kTilePlanes; ++p) Transpose(plane(p));
}

void PackPanel(const TileSource& source, int64_t sides, int64_t k, bool columns, void* panel) {
  auto* to = static_cast<std::byte*>(panel);
  for (int64_t at = 0; at < k; at += kTilePanel) {
    for (int64_t half = 0; half < 2; ++half) {
      PackTile(source, half * kHalf, sides, at, k, columns,
               to + static_cast<size_t>(half) * kTileBytes);
    }
    to += 2 * kTilePlanes * kTileBytes;
  }
}

// Tile registers 0 to 3 contain the sums, 4 and 5 contain rows, 6 and 7 contain columns.
#define TANDEM_ROWS(plane)                        \
  _tile_loadd(4, a + 2 * (plane)*kTileBytes, 64); \
  _tile_loadd(5, a + (2 * (plane) + 1) * kTileBytes, 64)
#define TANDEM_COLUMNS(plane)                     \
  _tile_loadd(6, b + 2 * (plane)*kTileBytes, 64); \
  _tile_loadd(7, b + (2 * (plane) + 1) * kTileBytes, 64)
#define TANDEM_PRODUCTS    \
  _tile_dpbf16ps(0, 4, 6); \
  _tile_dpbf16ps(1, 4, 7); \
  _tile_dpbf16ps(2, 5, 6); \
  _tile_dpbf16ps(3, 5, 7)

void Steps(const std::byte* a, const std::byte* b, int64_t steps) {
  for (; steps > 0; --steps, a += 2 * kTilePlanes * kTileBytes, b += 2 * kTilePlanes * kTileBytes) {
    TANDEM_ROWS(2);
    TANDEM_COLUMNS(0);
    TANDEM_PRODUCTS;
    TANDEM_ROWS(1);
    TANDEM_PRODUCTS;
    TANDEM_COLUMNS(1);
    TANDEM_PRODUCTS;
    TANDEM_ROWS(0);
    TANDEM_PRODUCTS;
    TANDEM_COLUMNS(2);
    TANDEM_PRODUCTS;
    TANDEM_COLUMNS(0);
    TANDEM_PRODUCTS;
  }
}

void Multiply(const void* rows, const void* columns, int64_t steps, TileStart start,
              const float* bias, float* sums, int64_t stride) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
  float* lower = sums + kHalf * stride;
  if (start == TileStart::kZero) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    const bool in_place = start == TileStart::kSums;
    const float *upper = in_place ? sums : bias, *under = in_place ? lower : bias;
    const int64_t step = in_place ? bytes : 0;  // a step of 0 loads the same row of bias 16 times
    _tile_loadd(0, upper, step);
    _tile_loadd(1, upper + kHalf, step);
    _tile_loadd(2, under, step);
    _tile_loadd(3, under + kHalf, step);
  }
  const auto* a = static_cast<const std::byte*>(rows);
  const auto* b = static_cast<const std::byte*>(columns);
  Steps(a, b, steps);
  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + kHalf, bytes);
  _tile_stored(2, lower, bytes);
  _tile_stored(3, lower + kHalf, bytes);
}

// The operand of the instruction LDTILECFG (Intel SDM, volume 1, 18.3).
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void Begin() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}
void End() { _tile_release(); }

// CPUID is read directly, because some compilers do not know the names of these features yet.
bool HasTiles() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;  // bits of register EDX in CPUID leaf 7
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTile) != 0;
}

// The Linux kernel lets a process use tiles only after a request (Documentation/x86/xstate.rst).
bool AskForTiles() {
  // The numbers of ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA.
  constexpr int kRequest = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

}  // namespace

const TileLoops* AmxTileLoops() {
  static const TileLoops loops = {PackPanel, Multiply, Begin, End};
  static const bool found = __builtin_cpu_supports("avx512f") &&
                            __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl") &&
                            __builtin_cpu_supports("avx512bf16") && HasTiles() && AskForTiles();
  return found ? &loops : nullptr;
}

}  // namespace tandem::ops
