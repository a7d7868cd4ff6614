#include "trainer/reader/input/zip_entries.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "common/base/require.h"

namespace tandem::reader {
namespace {

constexpr uint32_t kEndOfDirectory = 0x06054b50, kEndOfDirectory64 = 0x06064b50,
                   kLocator64 = 0x07064b50, kDirectoryEntry = 0x02014b50, kLocalEntry = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kDirectoryEntryBytes = 46,
                 kLocalEntryBytes = 30;
constexpr size_t kCommentMax = 65535;
constexpr uint32_t kIn64 = 0xffffffff;  // marks a value that is in the zip64 field
// Deflate expands one byte to at most 1032 bytes (zlib, "Technical Details").
constexpr uint64_t kDeflateRatio = 1032;

// An entry of the zip file's central directory.
struct Place {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, unpacked = 0, offset = 0;
};

class ZipReader {
 public:
  ZipReader(std::span<const uint8_t> file, const std::string& name) : file_(file), name_(name) {}

  StatusOr<std::vector<ZipEntry>> Run();

 private:
  struct Directory {
    uint64_t entries = 0, bytes = 0, offset = 0;
  };

  // Returns whether the range [offset, offset + bytes) is in the file.
  bool Has(uint64_t offset, uint64_t bytes) const {
    return offset <= file_.size() && file_.size() - offset >= bytes;
  }
  // Returns the value at `offset` of the file. REQUIRES: Has(offset, sizeof(T)).
  template <typename T>
  T Load(uint64_t offset) const {
    TD_REQUIRE(Has(offset, sizeof(T)));
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof(value));
    return value;
  }
  Status Damaged(uint64_t offset, const char* why) const {
    return DataLoss("%s: offset %d: %s [TD2002]; hint: write the file again with numpy.savez",
                    name_, offset, why);
  }
  StatusOr<Directory> FindDirectory() const;
  StatusOr<Place> ReadPlace(uint64_t& at) const;
  Status ReadZip64(uint64_t at, uint64_t bytes, Place& place) const;
  StatusOr<ZipEntry> Unpack(Place place) const;
  Status Inflate(std::span<const uint8_t> packed, uint64_t offset, std::vector<uint8_t>& out) const;

  const std::span<const uint8_t> file_;
  const std::string& name_;
};

StatusOr<ZipReader::Directory> ZipReader::FindDirectory() const {
  if (file_.size() < kEndBytes)
    return Damaged(file_.size(), "the file is too short for a zip file");
  const uint64_t last = file_.size() - kEndBytes;
  const uint64_t first = last - std::min<uint64_t>(last, kCommentMax);
  uint64_t at = last;
  while (Load<uint32_t>(at) != kEndOfDirectory ||
         Load<uint16_t>(at + 20) != file_.size() - at - kEndBytes) {
    if (at-- == first) {
      return Damaged(file_.size(), "the zip file has no directory; the file may be truncated");
    }
  }
  Directory out{Load<uint16_t>(at + 10), Load<uint32_t>(at + 12), Load<uint32_t>(at + 16)};
  if (at >= kLocatorBytes && Load<uint32_t>(at - kLocatorBytes) == kLocator64) {
    const uint64_t end64 = Load<uint64_t>(at - kLocatorBytes + 8);
    if (!Has(end64, kEnd64Bytes) || Load<uint32_t>(end64) != kEndOfDirectory64) {
      return Damaged(at, "the zip64 directory is not where the file says");
    }
    out = {Load<uint64_t>(end64 + 32), Load<uint64_t>(end64 + 40), Load<uint64_t>(end64 + 48)};
  }
  if (!Has(out.offset, out.bytes)) return Damaged(at, "the directory is outside of the file");
  if (out.entries > out.bytes / kDirectoryEntryBytes) {
    return Damaged(at, "the directory is shorter than its entries");
  }
  return out;
}

// Replaces values of `place` by the values in the zip64 field of its entry. `at`, `bytes`: offset
// and size of the entry's extra fields.
Status ZipReader::ReadZip64(uint64_t at, uint64_t bytes, Place& place) const {
  const uint64_t end = at + bytes;
  while (end - at >= 4) {
    const uint16_t id = Load<uint16_t>(at), size = Load<uint16_t>(at + 2);
    at += 4;
    if (size > end - at) return Damaged(at, "an extra field exceeds its entry");
    if (id != 1) {
      at += size;
      continue;
    }
    uint64_t left = size;
    for (uint64_t* const value : {&place.unpacked, &place.packed, &place.offset}) {
      if (*value != kIn64) continue;
      if (left < 8) return Damaged(at, "a zip64 field is too short");
      *value = Load<uint64_t>(at);
      at += 8;
      left -= 8;
    }
    return OkStatus();
  }
  return OkStatus();
}

StatusOr<Place> ZipReader::ReadPlace(uint64_t& at) const {
  if (!Has(at, kDirectoryEntryBytes) || Load<uint32_t>(at) != kDirectoryEntry) {
    return Damaged(at, "an entry of the directory is damaged");
  }
  Place place;
  place.flags = Load<uint16_t>(at + 8);
  place.method = Load<uint16_t>(at + 10);
  place.crc = Load<uint32_t>(at + 16);
  place.packed = Load<uint32_t>(at + 20);
  place.unpacked = Load<uint32_t>(at + 24);
  place.offset = Load<uint32_t>(at + 42);
  const uint64_t name = Load<uint16_t>(at + 28), extra = Load<uint16_t>(at + 30);
  const uint64_t rest = name + extra + Load<uint16_t>(at + 32);
  at += kDirectoryEntryBytes;
  if (!Has(at, rest)) return Damaged(at, "an entry of the directory exceeds the file");
  place.name.assign(reinterpret_cast<const char*>(file_.data() + at), name);
  TD_RETURN_IF_ERROR(ReadZip64(at + name, extra, place));
  at += rest;
  return place;
}

// Unpacks deflated data into `out`. DATA_LOSS: the unpacked data do not have exactly the size of
// `out`, or the data are damaged. `offset`: offset of the data in the file, for messages.
Status ZipReader::Inflate(std::span<const uint8_t> packed, uint64_t offset,
                          std::vector<uint8_t>& out) const {
  constexpr size_t kChunk = size_t{1} << 30;
  z_stream z{};
  if (inflateInit2(&z, -15) != Z_OK)
    return ResourceExhausted("cannot decompress %s: not enough memory for zlib", name_);
  const absl::Cleanup end = [&z] { inflateEnd(&z); };
  size_t fed = 0, made = 0;
  uint8_t none = 0;  // output address if `out` is full, because zlib rejects a null pointer
  for (;;) {
    const size_t in = std::min(packed.size() - fed, kChunk),
                 room = std::min(out.size() - made, kChunk);
    z.next_in = const_cast<Bytef*>(packed.data() + fed);  // zlib does not write to next_in
    z.avail_in = static_cast<uInt>(in);
    z.next_out = room == 0 ? &none : out.data() + made;
    z.avail_out = static_cast<uInt>(room);
    const int rc = inflate(&z, Z_NO_FLUSH);
    const size_t read = in - z.avail_in, written = room - z.avail_out;
    fed += read;
    made += written;
    if (rc == Z_STREAM_END) break;
    if (rc != Z_OK || (read == 0 && written == 0)) {
      return Damaged(offset + fed, "the packed data are damaged");
    }
  }
  if (made != out.size() || fed != packed.size()) {
    return Damaged(offset + fed, "the packed data have another size than the directory says");
  }
  return OkStatus();
}

StatusOr<ZipEntry> ZipReader::Unpack(Place place) const {
  if ((place.flags & 1) != 0) {
    return Unimplemented("%s: entry %s is encrypted [TD2009]; hint: write it with numpy.savez",
                         name_, place.name);
  }
  if (place.method != 0 && place.method != 8) {
    return Unimplemented(
        "%s: entry %s is packed with method %d, expected 0 (stored) or 8 (deflated) [TD2009]; "
        "hint: write it with numpy.savez_compressed",
        name_, place.name, place.method);
  }
  if (!Has(place.offset, kLocalEntryBytes) || Load<uint32_t>(place.offset) != kLocalEntry) {
    return Damaged(place.offset, "an entry is not where the directory says");
  }
  const uint64_t begin = place.offset + kLocalEntryBytes + Load<uint16_t>(place.offset + 26) +
                         Load<uint16_t>(place.offset + 28);
  if (!Has(begin, place.packed)) return Damaged(begin, "an entry exceeds the file");
  const auto packed = file_.subspan(begin, static_cast<size_t>(place.packed));
  ZipEntry entry{std::move(place.name), {}};
  if (place.method == 0) {
    if (place.unpacked != place.packed) return Damaged(begin, "a stored entry has two sizes");
    entry.bytes.assign(packed.begin(), packed.end());
  } else {
    if (place.unpacked / kDeflateRatio > place.packed) {
      return Damaged(begin, "an entry is larger than its packed data allow");
    }
    entry.bytes.resize(static_cast<size_t>(place.unpacked));
    TD_RETURN_IF_ERROR(Inflate(packed, begin, entry.bytes));
  }
  const auto crc = static_cast<uint32_t>(crc32_z(0, entry.bytes.data(), entry.bytes.size()));
  if (crc != place.crc) return Damaged(begin, "an entry has a wrong checksum");
  return entry;
}

StatusOr<std::vector<ZipEntry>> ZipReader::Run() {
  TD_ASSIGN_OR_RETURN(const Directory directory, FindDirectory());
  std::vector<ZipEntry> entries;
  uint64_t at = directory.offset, packed = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    TD_ASSIGN_OR_RETURN(Place place, ReadPlace(at));
    // Rejects entries that share bytes, because their total unpacked size would have no bound.
    packed += std::min<uint64_t>(place.packed, file_.size());
    if (packed > file_.size()) return Damaged(at, "the entries are larger than the file");
    TD_ASSIGN_OR_RETURN(entries.emplace_back(), Unpack(std::move(place)));
  }
  return entries;
}

}  // namespace

StatusOr<std::vector<ZipEntry>> ReadZip(std::span<const uint8_t> file, const std::string& name) {
  return ZipReader(file, name).Run();
}

}  // namespace tandem::reader
