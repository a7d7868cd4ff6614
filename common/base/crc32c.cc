#include "common/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tandem {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82F63B78u : 0);
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t Plain(uint32_t c, const uint8_t* p, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) c = (c >> 8) ^ kTable[(c ^ p[i]) & 0xff];
  return c;
}

#if defined(__x86_64__)
// The instruction gives its result three cycles later, and may be begun in each: so three parts of
// this many bytes are summed side by side.
constexpr size_t kPart = 1024;

// What kPart zeros make of a sum, by its four bytes: sums are linear in it.
constexpr std::array<std::array<uint32_t, 256>, 4> MakeBehindPart() {
  std::array<uint32_t, 32> bits{};
  for (size_t bit = 0; bit < bits.size(); ++bit) {
    uint32_t c = 1u << bit;
    for (size_t i = 0; i < kPart; ++i) c = (c >> 8) ^ kTable[c & 0xff];
    bits[bit] = c;
  }
  std::array<std::array<uint32_t, 256>, 4> behind{};
  for (size_t byte = 0; byte < behind.size(); ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit) & 1) behind[byte][value] ^= bits[8 * byte + bit];
      }
    }
  }
  return behind;
}
constexpr std::array<std::array<uint32_t, 256>, 4> kBehindPart = MakeBehindPart();

uint64_t BehindPart(uint64_t c) {
  return kBehindPart[0][c & 0xff] ^ kBehindPart[1][(c >> 8) & 0xff] ^
         kBehindPart[2][(c >> 16) & 0xff] ^ kBehindPart[3][(c >> 24) & 0xff];
}

__attribute__((target("sse4.2"))) inline uint64_t Word(uint64_t c, const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return _mm_crc32_u64(c, word);
}

__attribute__((target("sse4.2"))) uint32_t Hardware(uint32_t before, const uint8_t* p,
                                                    size_t bytes) {
  uint64_t c = before;
  for (; bytes >= 3 * kPart; p += 3 * kPart, bytes -= 3 * kPart) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      c = Word(c, p + i);
      second = Word(second, p + kPart + i);
      third = Word(third, p + 2 * kPart + i);
    }
    c = BehindPart(BehindPart(c) ^ second) ^ third;
  }
  for (; bytes >= 8; p += 8, bytes -= 8) c = Word(c, p);
  auto sum = static_cast<uint32_t>(c);
  for (; bytes > 0; ++p, --bytes) sum = _mm_crc32_u8(sum, *p);
  return sum;
}
#endif

}  // namespace

uint32_t Crc32c(uint32_t before, const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~Hardware(~before, p, bytes);
#endif
  return ~Plain(~before, p, bytes);
}

}  // namespace tandem
