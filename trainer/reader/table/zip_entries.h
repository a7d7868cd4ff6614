// Entries of a zip file, such as numpy's .npz. Source: PKWARE, "APPNOTE.TXT: .ZIP File Format
// Specification" 6.3. Internal to the table reader.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

struct ZipEntry {
  std::string name;
  std::vector<uint8_t> bytes;  // unpacked
};

// Unpacks all entries of a zip file (also zip64), stored or deflated, and verifies their checksums.
// `name` begins every message. Memory use is bounded by the size of the file, times the largest
// ratio of deflate. DATA_LOSS: the file is damaged; the message has the offset. UNIMPLEMENTED: an
// entry is encrypted or packed with another method.
StatusOr<std::vector<ZipEntry>> ReadZip(std::span<const uint8_t> file, const std::string& name);

}  // namespace tandem::reader
