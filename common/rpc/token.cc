#include "common/rpc/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "common/base/check.h"
#include "common/base/own_files.h"

namespace tandem {
namespace {

constexpr uint64_t kSecretBytesMax = 4096;

}  // namespace

std::string JobToken(std::string_view secret, std::string_view job) {
  if (secret.empty()) return "";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(job.data()), job.size(), digest,
             &size) != nullptr);
  return std::string(
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size)));
}

bool TokensEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

StatusOr<std::string> ReadSecretFile(const std::string& path) {
  StatusOr<std::string> read = ReadOwnFile(path, kSecretBytesMax, OwnRule::kSecret);
  if (read.status().code() == StatusCode::kNotFound) {
    return NotFound("secret file %s: No such file or directory [TD6013]", path);
  }
  if (!read.ok()) return Annotate(read.status(), "secret file");
  std::string secret = *std::move(read);
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < 16) {
    return InvalidArgument("secret file %s holds %d characters; expected at least 16 [TD6013]",
                           path, secret.size());
  }
  return secret;
}

}  // namespace tandem
