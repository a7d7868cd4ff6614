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
  std::vector<uint8_t> bytes;  // unpacked content of the entry
};

// Unpacks all entries of a zip or zip64 file, which may be stored or deflated. Verifies the
// checksums of the entries. Every message begins with `name`. The memory use is at most the size of
// the file times the largest compression ratio of deflate. DATA_LOSS: the file is damaged; the
// message has the offset. UNIMPLEMENTED: an entry is encrypted or has another compression method.
StatusOr<std::vector<ZipEntry>> ReadZip(std::span<const uint8_t> file, const std::string& name);

}  // namespace tandem::reader
