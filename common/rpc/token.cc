#include "common/rpc/token.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <iterator>

namespace tandem {

StatusOr<std::string> ReadSecretFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return NotFound("secret file %s: %s [TD6013]", path, ErrnoText(errno));
  }
  // The group may read a mounted secret (Kubernetes' fsGroup); nobody else.
  if ((info.st_mode & 027) != 0) {
    return PermissionDenied(
        "secret file %s may be read by others (mode %o) [TD6012]; run chmod 600 %s", path,
        static_cast<unsigned>(info.st_mode & 0777), path);
  }
  if (info.st_size > 4096) return InvalidArgument("secret file %s: longer than 4096", path);
  std::ifstream file(path, std::ios::binary);
  std::string secret((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return NotFound("secret file %s cannot be read [TD6013]", path);
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < 16) {
    return InvalidArgument("secret file %s holds %d characters; expected at least 16 [TD6013]",
                           path, secret.size());
  }
  return secret;
}

}  // namespace tandem
