#include "trainer/reader/text_parts.h"

#include <array>
#include <cerrno>

#include "common/os/files.h"

namespace tandem::reader {

StatusOr<std::ifstream> OpenTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (file.good()) return file;
  const int error = errno;
  if (error == EACCES)
    return PermissionDenied("cannot open %s: %s [TD2106]", path, ErrnoText(error));
  if (error == ENOENT) return NotFound("cannot open %s: %s [TD2001]", path, ErrnoText(error));
  return FileError(path, "cannot be opened", error);
}

StatusOr<std::string> ReadToEnd(const std::string& path, std::ifstream& file) {
  // An iterator over the buffer of the stream would throw an exception if a read fails.
  std::string text;
  std::array<char, size_t{1} << 16> piece;
  do {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
  } while (file.good());
  if (file.bad()) return DataLoss("cannot read %s: %s [TD2106]", path, ErrnoText(errno));
  return text;
}

}  // namespace tandem::reader
