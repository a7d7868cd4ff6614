// Makes numpy's files and zip files for tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace tandem {

// Returns the bytes of a .npy file in the format `version`.0 with these elements.
template <typename T>
std::string Npy(const std::string& descr, const std::string& shape, const std::vector<T>& values,
                int version = 1, bool fortran = false) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  const size_t before = version == 1 ? 10 : 12;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (size_t i = 0; i < before - 8; ++i) out += static_cast<char>(header.size() >> (8 * i));
  out += header;
  const size_t at = out.size();
  out.resize(at + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(out.data() + at, values.data(), values.size() * sizeof(T));
  return out;
}

// Returns the bytes of `text` as raw deflate data.
inline std::string Deflated(const std::string& text) {
  z_stream z{};
  CHECK_EQ(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  CHECK_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// Returns the bytes of a zip file. Each entry is a name and a content. `deflated`: whether the
// contents are compressed.
inline std::string Zip(const std::vector<std::pair<std::string, std::string>>& entries,
                       bool deflated) {
  std::string out, directory;
  const auto put = [](std::string& to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i, value >>= 8) to += static_cast<char>(value);
  };
  for (const auto& [name, text] : entries) {
    const std::string packed = deflated ? Deflated(text) : text;
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
    // The fields that a local header and an entry of the central directory share.
    std::string fields;
    put(fields, 20, 2);
    put(fields, 0, 2);
    put(fields, deflated ? 8 : 0, 2);
    put(fields, 0, 4);
    put(fields, crc, 4);
    put(fields, packed.size(), 4);
    put(fields, text.size(), 4);
    put(fields, name.size(), 2);
    put(fields, 0, 2);
    directory += "PK\x01\x02";
    put(directory, 20, 2);
    directory += fields;
    put(directory, 0, 10);
    put(directory, out.size(), 4);
    directory += name;
    out += "PK\x03\x04" + fields + name + packed;
  }
  const size_t at = out.size();
  out += directory + "PK\x05\x06";
  put(out, 0, 4);
  put(out, entries.size(), 2);
  put(out, entries.size(), 2);
  put(out, directory.size(), 4);
  put(out, at, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace tandem
