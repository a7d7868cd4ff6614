#include "trainer/files/npz.h"

#include <zlib.h>

#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "common/os/files.h"

namespace tandem::trainer {
namespace {

static_assert(std::endian::native == std::endian::little,
              "fields are written as they lie in memory");

constexpr uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50;
constexpr uint32_t kZip64EndMagic = 0x06064b50, kZip64LocatorMagic = 0x07064b50;
constexpr uint32_t kEndMagic = 0x06054b50;
// A size or offset with this value means that the actual value is in the ZIP64 field. The writer
// puts all sizes and offsets into that field, so that small and large files have one form.
constexpr uint32_t kIn64 = 0xffffffff;
constexpr uint16_t kZip64Field = 1, kVersion64 = 45;
constexpr uint16_t kDate = 1 << 5 | 1;  // 1980-01-01, the earliest date in a ZIP file
constexpr size_t kNameBytesMax = 65535 - 4;

struct Member {
  std::string name;
  uint32_t crc = 0;
  uint64_t bytes = 0, offset = 0;
};

template <typename T>
void Put(std::string* out, std::type_identity_t<T> value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

const char* DescrOf(DType type) {
  switch (type) {
    case DType::kF32:
      return "<f4";
    case DType::kF16:
      return "<f2";
    case DType::kI32:
      return "<i4";
    case DType::kI64:
      return "<i8";
    case DType::kU8:
      return "|u1";
    default:
      return nullptr;
  }
}

// Returns the header of a .npy file: a Python literal, padded so that the elements start at a
// multiple of 64 bytes.
std::string NpyHeader(const char* descr, const Shape& shape) {
  std::string dims;
  for (const int64_t dim : shape.dims()) dims += std::to_string(dim) + ", ";
  if (shape.dims().size() > 1) dims.resize(dims.size() - 2);
  // A tuple of one element keeps its comma: "(3,)"
  if (shape.dims().size() == 1) dims.resize(dims.size() - 1);
  std::string literal =
      absl::StrFormat("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims);
  constexpr size_t kPrefix = 10, kAlign = 64;
  literal.append((kAlign - (kPrefix + literal.size() + 1) % kAlign) % kAlign, ' ');
  literal += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  Put<uint16_t>(&header, static_cast<uint16_t>(literal.size()));
  return header + literal;
}

// Appends the fields that both headers of a ZIP member have: version, flags (names are UTF-8),
// method "stored", time, date, checksum and sizes.
void PutCommon(std::string* out, const Member& member) {
  constexpr uint16_t kUtf8 = 1 << 11;
  Put<uint16_t>(out, kVersion64);
  Put<uint16_t>(out, kUtf8);
  Put<uint16_t>(out, 0);
  Put<uint16_t>(out, 0);
  Put<uint16_t>(out, kDate);
  Put<uint32_t>(out, member.crc);
  Put<uint32_t>(out, kIn64);
  Put<uint32_t>(out, kIn64);
  Put<uint16_t>(out, static_cast<uint16_t>(member.name.size()));
}

std::string LocalHeader(const Member& member) {
  std::string out;
  Put<uint32_t>(&out, kLocalMagic);
  PutCommon(&out, member);
  Put<uint16_t>(&out, 20);
  out += member.name;
  Put<uint16_t>(&out, kZip64Field);
  Put<uint16_t>(&out, 16);
  Put<uint64_t>(&out, member.bytes);
  Put<uint64_t>(&out, member.bytes);
  return out;
}

std::string CentralHeader(const Member& member) {
  std::string out;
  Put<uint32_t>(&out, kCentralMagic);
  Put<uint16_t>(&out, kVersion64);
  PutCommon(&out, member);
  Put<uint16_t>(&out, 28);
  Put<uint16_t>(&out, 0);  // length of the member's comment
  Put<uint16_t>(&out, 0);  // number of the disk on which the member starts
  Put<uint16_t>(&out, 0);  // internal attributes of the member
  Put<uint32_t>(&out, 0);
  Put<uint32_t>(&out, kIn64);
  out += member.name;
  Put<uint16_t>(&out, kZip64Field);
  Put<uint16_t>(&out, 24);
  Put<uint64_t>(&out, member.bytes);
  Put<uint64_t>(&out, member.bytes);
  Put<uint64_t>(&out, member.offset);
  return out;
}

std::string EndRecords(size_t members, uint64_t central_offset, uint64_t central_bytes) {
  std::string out;
  Put<uint32_t>(&out, kZip64EndMagic);
  Put<uint64_t>(&out, 44);
  Put<uint16_t>(&out, kVersion64);
  Put<uint16_t>(&out, kVersion64);
  Put<uint32_t>(&out, 0);
  Put<uint32_t>(&out, 0);
  Put<uint64_t>(&out, members);
  Put<uint64_t>(&out, members);
  Put<uint64_t>(&out, central_bytes);
  Put<uint64_t>(&out, central_offset);
  Put<uint32_t>(&out, kZip64LocatorMagic);
  Put<uint32_t>(&out, 0);
  Put<uint64_t>(&out, central_offset + central_bytes);
  Put<uint32_t>(&out, 1);
  Put<uint32_t>(&out, kEndMagic);
  Put<uint32_t>(&out, 0);  // numbers of this disk and of the central directory's disk
  Put<uint16_t>(&out, 0xffff);
  Put<uint16_t>(&out, 0xffff);
  Put<uint32_t>(&out, kIn64);
  Put<uint32_t>(&out, kIn64);
  Put<uint16_t>(&out, 0);  // length of the archive's comment
  return out;
}

uint32_t Crc(uint32_t crc, const void* data, size_t bytes) {
  return static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

}  // namespace

Status WriteNpz(const std::string& path, const TensorMap& tensors) {
  FileWriter file;
  TD_RETURN_IF_ERROR(file.Open(path));
  std::vector<Member> members;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* descr = DescrOf(tensor.dtype());
    if (descr == nullptr) {
      return InvalidArgument("%s: NumPy has no element type for %s; hint: export to .safetensors",
                             name, ToString(tensor.desc()));
    }
    if (name.empty() || name.size() + 4 > kNameBytesMax) {
      return InvalidArgument("the name of a tensor has %d bytes, which is too long for a ZIP file",
                             name.size());
    }
    const std::string header = NpyHeader(descr, tensor.shape());
    Member member{name + ".npy", 0, header.size() + tensor.bytes(), offset};
    member.crc = Crc(Crc(0, header.data(), header.size()), tensor.data(), tensor.bytes());
    const std::string front = LocalHeader(member) + header;
    TD_RETURN_IF_ERROR(file.Write(front.data(), front.size()));
    TD_RETURN_IF_ERROR(file.Write(tensor.data(), tensor.bytes()));
    offset += front.size() + tensor.bytes();
    members.push_back(std::move(member));
  }
  std::string end;
  for (const Member& member : members) end += CentralHeader(member);
  end += EndRecords(members.size(), offset, end.size());
  TD_RETURN_IF_ERROR(file.Write(end.data(), end.size()));
  return file.SyncAndClose();
}

}  // namespace tandem::trainer
