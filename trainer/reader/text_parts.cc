#include "trainer/reader/text_parts.h"

#include <cerrno>

namespace tandem::reader {

StatusOr<std::ifstream> OpenTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (file.good()) return file;
  const int error = errno;
  if (error == EACCES)
    return PermissionDenied("cannot open %s: %s [TD2106]", path, ErrnoText(error));
  return NotFound("cannot open %s: %s [TD2001]", path, ErrnoText(error));
}

}  // namespace tandem::reader
