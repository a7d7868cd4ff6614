#include "trainer/reader/input/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/os/files.h"

namespace tandem::reader {

StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // With O_NONBLOCK, open() does not wait for the writer of a named pipe. Open then detects and
  // rejects the pipe.
  InputFile file(path, open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor_ < 0) {
    const int error = errno;
    if (error == EACCES)
      return PermissionDenied("cannot open %s: %s [TD2106]", path, ErrnoText(error));
    if (error == ENOENT) return NotFound("cannot open %s: %s [TD2001]", path, ErrnoText(error));
    return FileError(path, "cannot be opened", error);
  }
  struct stat st;
  if (fstat(file.descriptor_, &st) != 0)
    return DataLoss("cannot open %s: %s [TD2106]", path, ErrnoText(errno));
  if (!S_ISREG(st.st_mode)) return InvalidArgument("%s is not a regular file [TD2009]", path);
  file.size_ = static_cast<uint64_t>(st.st_size);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

StatusOr<size_t> InputFile::Read(uint64_t offset, char* to, size_t bytes) const {
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(descriptor_, to + got, bytes - got, static_cast<off_t>(offset + got));
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return DataLoss("cannot read %s at offset %d: %s [TD2106]", path_, offset + got,
                      ErrnoText(errno));
    }
    got += static_cast<size_t>(n);
  }
  return got;
}

}  // namespace tandem::reader
