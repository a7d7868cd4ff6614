// Fuzz target: zip files (.npz).
#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/numpy_files.h"
#include "trainer/reader/input/zip_entries.h"

namespace tandem {
namespace {

bool Accepts(std::string_view input) {
  const std::span file(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const auto entries = reader::ReadZip(file, "file");
  CHECK(entries.ok() || !entries.status().message().empty());
  if (!entries.ok()) return false;
  size_t bytes = 0;
  for (const reader::ZipEntry& entry : *entries) bytes += entry.bytes.size();
  CHECK_LE(bytes, (input.size() + 1) * 1100);  // deflate expands one byte to at most 1032 bytes
  return true;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  return {{Zip({{"x.npy", "hello"}}, false),
           Zip({{"x.npy", std::string(500, 'a')}, {"y", ""}}, true), Zip({}, false)},
          {"PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", "\xff\xff\xff\xff",
           "\x08"},
          Accepts};
}

}  // namespace tandem
