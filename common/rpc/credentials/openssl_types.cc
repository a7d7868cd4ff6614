#include "common/rpc/credentials/openssl_types.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/base/require.h"

namespace tandem::rpc {

std::string OpensslError() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

BioPtr ReadOnlyBio(const std::string& text) {
  BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  CHECK(bio != nullptr);
  return bio;
}

CertPtr NextCert(BIO* pem) {
  CertPtr cert(PEM_read_bio_X509(pem, nullptr, nullptr, nullptr));
  ERR_clear_error();  // OpenSSL reports the end of the text as an error
  return cert;
}

}  // namespace tandem::rpc
