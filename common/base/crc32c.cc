#include "common/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace tandem {

uint32_t Crc32c(uint32_t before, const void* data, size_t bytes) {
  // Maximum bytes of one call, because the library's length parameter is an int.
  constexpr size_t kCallMax = size_t{1} << 30;
  // The library's pointer is non-const, but the library only reads the memory. This function must
  // invert the CRC before and after the call.
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

}  // namespace tandem
