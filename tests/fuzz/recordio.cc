// Fuzz target: recordio files. Each input is also tried with corrected checksums, because the
// parser stops at a wrong checksum.
#include <zlib.h>

#include <cstring>

#include "tests/fuzz/file_target.h"

namespace tandem {
namespace {

// Corrects the checksums of all complete chunks. A chunk begins with the magic number, the number
// of records, the CRC32 of the payload and the compressor. The size of the payload in bytes and the
// payload follow.
std::string Sealed(std::string file) {
  for (size_t at = 0; at + 20 <= file.size();) {
    uint32_t size;
    std::memcpy(&size, file.data() + at + 16, sizeof(size));
    at += 20;
    if (size > file.size() - at) break;
    const auto crc =
        static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(file.data() + at), size));
    std::memcpy(file.data() + at - 12, &crc, sizeof(crc));
    at += size;
  }
  return file;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  FuzzTarget target = FormatTarget("recordio");
  target.accepts = [accepts = target.accepts](std::string_view input) {
    const bool sealed = accepts(Sealed(std::string(input)));
    return accepts(input) || sealed;
  };
  return target;
}

}  // namespace tandem
