#include "common/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace tandem {

uint32_t Crc32c(uint32_t before, const void* data, size_t bytes) {
  // Maximum bytes per call of the library, because the library's length parameter is an int.
  constexpr size_t kCallMax = size_t{1} << 30;
  // The cast removes const, because the library's parameter is non-const; the library only reads
  // the memory. The library also requires an inverted CRC and returns an inverted CRC.
  auto* p = static_cast<unsigned char*>(const_cast<void*>(data));
  uint32_t sum = ~before;
  while (bytes > 0) {
    const size_t some = std::min(bytes, kCallMax);
    sum = crc32_iscsi(p, static_cast<int>(some), sum);
    p += some;
    bytes -= some;
  }
  return ~sum;
}

uint32_t Crc32(uint32_t before, const void* data, size_t bytes) {
  return crc32_gzip_refl(before, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace tandem
