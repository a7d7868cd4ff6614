#include "trainer/reader/idx.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "common/base/check.h"
#include "trainer/reader/input/gunzip.h"

namespace tandem::reader {
namespace {

constexpr uint32_t kTypeU8 = 0x08;
constexpr size_t kChunkBytes = size_t{1} << 20;

uint32_t BigEndian(const uint8_t* p) {
  return (uint32_t{p[0]} << 24) | (uint32_t{p[1]} << 16) | (uint32_t{p[2]} << 8) | p[3];
}

size_t HeaderBytes(int rank) { return 4 + 4 * static_cast<size_t>(rank); }

// Returns a hint about the most likely cause of a wrong magic number.
std::string MagicHint(uint32_t magic, uint32_t expected) {
  if (magic >> 16 == 0x1f8b)
    return "the file was compressed twice; hint: unpack the file once with gunzip";
  if (__builtin_bswap32(magic) == expected)
    return "the byte order is wrong, because idx files are big-endian";
  if (magic == 0x00000801) return "the file contains labels, expected images";
  if (magic == 0x00000803) return "the file contains images, expected labels";
  if (magic >> 8 != 0 || (magic & 0xff) > 8) return "the file is not an idx file";
  return "hint: download the file again";
}

Status CheckMagic(std::span<const uint8_t> head, const std::string& name, int rank) {
  const uint32_t magic = BigEndian(head.data());
  const uint32_t expected = (kTypeU8 << 8) | static_cast<uint32_t>(rank);
  if (magic == expected) return OkStatus();
  return DataLoss(
      "%s: offset 0: the file begins with 0x%08x, expected 0x%08x (idx, unsigned byte, %d %s) "
      "[TD2002]; %s",
      name, magic, expected, rank, rank == 1 ? "dimension" : "dimensions",
      MagicHint(magic, expected));
}

// Parses the dimensions, which follow the magic number. `head`: the HeaderBytes(rank) bytes of the
// header.
StatusOr<std::vector<uint32_t>> ParseDims(std::span<const uint8_t> head, const std::string& name,
                                          int rank) {
  std::vector<uint32_t> dims;
  uint64_t bytes = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const size_t offset = 4 + 4 * static_cast<size_t>(axis);
    dims.push_back(BigEndian(&head[offset]));
    if (dims.back() != 0 && bytes > kIdxBytesMax / dims.back()) {
      return DataLoss(
          "%s: offset %d: dimension %d is %d, which would make the array larger than %d bytes; the "
          "header is damaged [TD2002]",
          name, offset, axis, dims.back(), kIdxBytesMax);
    }
    bytes *= dims.back();
  }
  return dims;
}

uint64_t Product(const std::vector<uint32_t>& dims) {
  uint64_t n = 1;
  for (uint32_t d : dims) n *= d;
  return n;
}

Status TooShort(const std::string& name, uint64_t got, uint64_t expected, const char* unpacked) {
  return DataLoss(
      "%s: offset %d: the %sfile is truncated, expected %d bytes [TD2002]; hint: download or copy "
      "the file again",
      name, got, unpacked, expected);
}

StatusOr<IdxArray> ParseGzip(std::span<const uint8_t> file, const std::string& name, int rank) {
  Gunzip gz(file, name);
  TD_RETURN_IF_ERROR(gz.Open());
  const size_t header = HeaderBytes(rank);
  std::vector<uint8_t> head;
  TD_RETURN_IF_ERROR(gz.Read(header, head));
  if (head.size() >= 4) TD_RETURN_IF_ERROR(CheckMagic(head, name, rank));
  if (head.size() < header) return TooShort(name, head.size(), header, "unpacked ");
  IdxArray array;
  TD_ASSIGN_OR_RETURN(array.dims, ParseDims(head, name, rank));
  const uint64_t bytes = Product(array.dims);
  // Requests one byte more than expected, so that the read reaches the end of the data and verifies
  // the checksum.
  TD_RETURN_IF_ERROR(gz.Read(bytes + 1, array.data));
  if (array.data.size() < bytes) {
    return TooShort(name, header + array.data.size(), header + bytes, "unpacked ");
  }
  if (array.data.size() > bytes) {
    return DataLoss(
        "%s: offset %d of the unpacked file: data follow after the %d bytes that the header "
        "announces [TD2002]; hint: download the file again",
        name, header + bytes, header + bytes);
  }
  return array;
}

}  // namespace

StatusOr<IdxArray> ParseIdx(std::span<const uint8_t> file, const std::string& name, int rank) {
  CHECK(rank >= 1 && rank <= 8);
  if (IsGzip(file)) return ParseGzip(file, name, rank);
  const size_t header = HeaderBytes(rank);
  if (file.size() >= 4) TD_RETURN_IF_ERROR(CheckMagic(file, name, rank));
  if (file.size() < header) return TooShort(name, file.size(), header, "");
  IdxArray array;
  TD_ASSIGN_OR_RETURN(array.dims, ParseDims(file, name, rank));
  const uint64_t bytes = Product(array.dims);
  if (file.size() - header < bytes) return TooShort(name, file.size(), header + bytes, "");
  if (file.size() - header > bytes) {
    return DataLoss(
        "%s: offset %d: %d bytes follow the end of the array [TD2002]; hint: download the file "
        "again",
        name, header + bytes, file.size() - header - bytes);
  }
  array.data.assign(file.begin() + static_cast<ptrdiff_t>(header), file.end());
  return array;
}

StatusOr<IdxArray> ReadIdx(const std::string& path, int rank) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    const int error = errno;
    if (error == ENOENT) return NotFound("data file %s does not exist [TD2001]", path);
    if (error == EACCES)
      return PermissionDenied("cannot open %s: %s [TD2106]", path, ErrnoText(error));
    return DataLoss("cannot open %s: %s [TD2106]", path, ErrnoText(error));
  }
  const absl::Cleanup close = [file] { std::fclose(file); };
  std::vector<uint8_t> bytes;
  for (size_t got = kChunkBytes; got == kChunkBytes;) {
    const size_t before = bytes.size();
    if (before > kIdxBytesMax)
      return DataLoss("%s is larger than %d bytes, which is not supported", path, kIdxBytesMax);
    bytes.resize(before + kChunkBytes);
    got = std::fread(bytes.data() + before, 1, kChunkBytes, file);
    bytes.resize(before + got);
  }
  if (std::ferror(file) != 0) {
    return DataLoss("cannot read %s at offset %d: %s [TD2106]", path, bytes.size(),
                    ErrnoText(errno));
  }
  return ParseIdx(bytes, path, rank);
}

}  // namespace tandem::reader
