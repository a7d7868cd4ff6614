// Fuzz target: tfrecord files. Each input is also tried with corrected checksums, because the
// parser stops at a wrong checksum.
#include <cstring>

#include "common/base/crc32c.h"
#include "tests/fuzz/file_target.h"

namespace tandem {
namespace {

// Corrects the checksums of all complete frames.
std::string Sealed(std::string file) {
  const auto seal = [&file](size_t at, size_t bytes) {
    const uint32_t crc = Crc32c(0, file.data() + at, bytes);
    const uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    std::memcpy(file.data() + at + bytes, &masked, sizeof(masked));
  };
  for (size_t at = 0; at + 12 <= file.size();) {
    uint64_t size;
    std::memcpy(&size, file.data() + at, sizeof(size));
    seal(at, sizeof(size));
    at += 12;
    if (size > file.size() - at || file.size() - at - size < 4) break;
    seal(at, size);
    at += size + 4;
  }
  return file;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  FuzzTarget target = FormatTarget("tfrecord");
  target.accepts = [accepts = target.accepts](std::string_view input) {
    const bool sealed = accepts(Sealed(std::string(input)));
    return accepts(input) || sealed;
  };
  return target;
}

}  // namespace tandem
