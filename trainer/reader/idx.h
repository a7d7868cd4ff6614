// The idx format of the MNIST files: a big-endian magic (0, 0, element type, rank), one 32-bit
// dimension per rank, then the elements. Source: Y. LeCun, "The MNIST database", file formats.
// Only unsigned bytes (type 0x08) are read, the only type that MNIST and its relatives use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {

struct IdxArray {
  std::vector<uint32_t> dims;  // outermost first, as many as were asked for
  std::vector<uint8_t> data;   // product of dims bytes
};

// Largest number of elements that is accepted, 4 GiB: beyond it a header is taken for damaged.
inline constexpr uint64_t kIdxBytesMax = uint64_t{1} << 32;

// `file`: the bytes of an idx file, plain or gzip (told apart by their first bytes, whatever the
// name says). `name` begins every message. DATA_LOSS with file and offset for anything but one
// whole array of `rank` dimensions: wrong magic, truncation, damaged gzip data, bytes after the
// end. Memory taken is bounded by what the file really holds, not by what its header claims.
StatusOr<IdxArray> ParseIdx(std::span<const uint8_t> file, const std::string& name, int rank);

// Reads and parses the file. NOT_FOUND, PERMISSION_DENIED or DATA_LOSS naming `path`.
StatusOr<IdxArray> ReadIdx(const std::string& path, int rank);

}  // namespace tandem
