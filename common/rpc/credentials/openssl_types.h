// Owning pointers for OpenSSL objects, and helpers for them. Include this header in .cc files only.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace tandem::rpc {

template <auto Free>
struct OpensslFree {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;
using CertPtr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, OpensslFree<SSL_free>>;

// Returns the oldest error of this thread's queue in readable form and clears the queue.
std::string OpensslError();
// Returns the bytes that were written to a memory BIO.
std::string TextOf(BIO* bio);
// Returns the next certificate of a PEM text, or null if there is no further certificate.
CertPtr NextCert(BIO* pem);
BioPtr ReadOnlyBio(const std::string& text);

}  // namespace tandem::rpc
