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
__attribute__((target("sse4.2"))) uint32_t Hardware(uint32_t c, const uint8_t* p, size_t bytes) {
  uint64_t wide = c;
  while (bytes >= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
    p += 8;
    bytes -= 8;
  }
  c = static_cast<uint32_t>(wide);
  for (; bytes > 0; ++p, --bytes) c = _mm_crc32_u8(c, *p);
  return c;
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
