#include "trainer/reader/text_parts.h"

#include <cerrno>

namespace tandem::reader {

StatusOr<std::ifstream> OpenTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (file.good()) return file;
  const int error = errno;
  if (error == EACCES) return PermissionDenied("%s: %s", path, ErrnoText(error));
  return NotFound("%s: cannot be read (%s) [TD2001]", path, ErrnoText(error));
}

}  // namespace tandem::reader
