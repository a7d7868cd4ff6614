#include "common/rpc/credentials/token.h"

#include "common/os/own_files.h"

namespace tandem::rpc {
namespace {

constexpr uint64_t kSecretBytesMax = 4096;

}  // namespace

StatusOr<std::string> ReadSecretFile(const std::string& path) {
  StatusOr<std::string> read = ReadOwnFile(path, kSecretBytesMax, OwnRule::kSecret);
  if (read.status().code() == StatusCode::kNotFound) {
    return NotFound(
        "secret file %s does not exist [TD6013]; hint: create the file with openssl rand -hex 32 > "
        "%s and chmod 600 %s",
        path, path, path);
  }
  if (!read.ok()) return Annotate(read.status(), "secret file");
  std::string secret = *std::move(read);
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < 16) {
    return InvalidArgument("secret file %s has %d characters, expected at least 16 [TD6013]", path,
                           secret.size());
  }
  return secret;
}

}  // namespace tandem::rpc
