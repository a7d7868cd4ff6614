// CRC32C (Castagnoli, polynomial 0x1EDC6F41 reflected; RFC 3720 appendix B.4). Uses ISA-L, which
// selects the instructions that the processor supports.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// Returns the checksum of some bytes followed by `data`. `before` is the checksum of the bytes
// before `data`; 0: there are none. So Crc32c(Crc32c(0, a), b) is the checksum of a followed by b.
uint32_t Crc32c(uint32_t before, const void* data, size_t bytes);

// The same with the polynomial 0x04C11DB7 (reflected) of zlib's crc32 and of RFC 1952. For
// checksums that Python also computes, whose standard library has no CRC32C. Both have the same
// speed.
uint32_t Crc32(uint32_t before, const void* data, size_t bytes);

}  // namespace tandem
