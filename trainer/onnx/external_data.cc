#include "trainer/onnx/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/numbers.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "onnx/onnx.pb.h"

namespace tandem::onnx {
namespace {

constexpr size_t kFileNameBytesMax = 255;

struct Place {
  std::string name;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

StatusOr<uint64_t> NumberOf(const ::onnx::StringStringEntryProto& entry) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(entry.value(), &number)) return number;
  return DataLoss("external data: %s is \"%s\", expected a number of bytes [TD1212]", entry.key(),
                  entry.value().substr(0, 40));
}

StatusOr<Place> PlaceOf(const ::onnx::TensorProto& tensor) {
  Place place;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      place.name = entry.value();
    } else if (entry.key() == "offset") {
      TD_ASSIGN_OR_RETURN(place.offset, NumberOf(entry));
    } else if (entry.key() == "length") {
      TD_ASSIGN_OR_RETURN(place.length, NumberOf(entry));
    }  // the entry "checksum" is ignored
  }
  return place;
}

// Accepts only the name of a file directly in the model's directory. Rejects a name with a path
// separator of any operating system.
Status CheckName(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= kFileNameBytesMax && name != "." &&
                     name != ".." &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (plain) return OkStatus();
  return InvalidArgument(
      "external data: location is \"%s\", expected the plain name of a file in the model's "
      "directory [TD1211]; hint: export the model again with its numbers in a file in the same "
      "directory",
      name.substr(0, kFileNameBytesMax));
}

}  // namespace

StatusOr<ExternalData::File*> ExternalData::Open(const std::string& name) {
  if (const auto it = files_.find(name); it != files_.end()) return &it->second;
  const std::string path = dir_ + "/" + name;
  // With O_NONBLOCK, opening a pipe does not block. A file that is not regular is rejected later.
  File file;
  file.fd = Fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.fd.valid()) {
    if (errno == ELOOP) {
      return InvalidArgument(
          "external data: %s is a link, expected a regular file [TD1211]; hint: copy the file into "
          "the directory of the model",
          path);
    }
    return Annotate(FileError(path, "cannot be opened", errno), "external data");
  }
  struct stat st;
  if (fstat(file.fd.get(), &st) != 0) return FileError(path, "cannot be examined", errno);
  if (!S_ISREG(st.st_mode)) {
    return InvalidArgument("external data: %s is not a regular file [TD1211]", path);
  }
  file.bytes = file.bytes_left = static_cast<uint64_t>(st.st_size);
  return &files_.emplace(name, std::move(file)).first->second;
}

StatusOr<ExternalData::Range> ExternalData::Find(const ::onnx::TensorProto& tensor,
                                                 uint64_t bytes) {
  TD_ASSIGN_OR_RETURN(const Place place, PlaceOf(tensor));
  TD_RETURN_IF_ERROR(CheckName(place.name));
  if (dir_.empty()) {
    return Unimplemented(
        "the tensor data are in file \"%s\", but the model was read from memory and has no "
        "directory",
        place.name);
  }
  if (place.length.value_or(bytes) != bytes) {
    return DataLoss("external data: length is %d bytes, but the tensor needs %d bytes [TD1212]",
                    *place.length, bytes);
  }
  TD_ASSIGN_OR_RETURN(File* const file, Open(place.name));
  const std::string path = dir_ + "/" + place.name;
  if (place.offset > file->bytes || bytes > file->bytes - place.offset) {
    return DataLoss(
        "external data: %s has %d bytes, but the tensor needs %d bytes from byte %d on [TD1212]; "
        "hint: copy the complete file again into the directory of the model",
        path, file->bytes, bytes, place.offset);
  }
  if (bytes > file->bytes_left) {
    return DataLoss(
        "external data: the tensors in %s need more than the %d bytes of the file [TD1212]", path,
        file->bytes);
  }
  TD_REQUIRE(file->bytes_left <= file->bytes);
  file->bytes_left -= bytes;
  return Range(file->fd.get(), path, place.offset);
}

Status ExternalData::Range::ReadTo(std::span<char> bytes) const {
  constexpr size_t kReadBytesMax = size_t{1} << 30;  // Linux reads at most 2 GiB in one call
  uint64_t offset = offset_;
  while (!bytes.empty()) {
    const ssize_t n =
        pread(fd_, bytes.data(), std::min(bytes.size(), kReadBytesMax), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path_, "cannot be read", errno);
    if (n == 0)
      return DataLoss("external data: %s was truncated while the model was read [TD1212]", path_);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return OkStatus();
}

}  // namespace tandem::onnx
