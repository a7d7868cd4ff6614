#include "trainer/files/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/os/files.h"

namespace tandem::trainer {

struct Sha256::Impl {
  EVP_MD_CTX* ctx = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(ctx); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  CHECK(impl_->ctx != nullptr && EVP_DigestInit_ex(impl_->ctx, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Add(const void* data, size_t bytes) {
  CHECK_EQ(EVP_DigestUpdate(impl_->ctx, data, bytes), 1);
}

std::string Sha256::Finish() {
  uint8_t digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  CHECK_EQ(EVP_DigestFinal_ex(impl_->ctx, digest, &size), 1);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += absl::StrFormat("%02x", digest[i]);
  return hex;
}

StatusOr<std::string> Sha256File(const std::string& path) {
  FileReader file;
  TD_RETURN_IF_ERROR(file.Open(path));
  Sha256 hash;
  std::vector<char> chunk(size_t{1} << 20);
  for (uint64_t left = file.bytes(); left > 0;) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(left, chunk.size()));
    TD_RETURN_IF_ERROR(file.Read(chunk.data(), n));
    hash.Add(chunk.data(), n);
    left -= n;
  }
  return hash.Finish();
}

}  // namespace tandem::trainer
