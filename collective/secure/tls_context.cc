#include "collective/secure/tls_context.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "common/base/check.h"
#include "common/rpc/credentials/openssl_types.h"

namespace tandem::collective {
namespace {

// Bytes that one read of a socket may return. OpenSSL reads several records with one system call.
constexpr size_t kReadBytes = 128 << 10;

// The ciphers of TLS 1.3, the preferred one first. The first two are the fastest on processors with
// instructions for AES.
constexpr char kCiphers[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

}  // namespace

TlsContext::TlsContext(const rpc::TlsFiles& files, const std::string& job)
    : files_(files), job_(job), context_(SSL_CTX_new(TLS_method())) {
  CHECK(context_ != nullptr) << rpc::OpensslError();
  CHECK_EQ(SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION), 1);
  CHECK_EQ(SSL_CTX_set_ciphersuites(context_, kCiphers), 1);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // The certificate of a trainer is one of a client (tandem certs issue). Between two ranks it also
  // serves the side that listens.
  CHECK_EQ(X509_VERIFY_PARAM_set_purpose(SSL_CTX_get0_param(context_), X509_PURPOSE_SSL_CLIENT), 1);
  // A connection is never resumed, because each rendezvous makes new connections.
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  CHECK_EQ(SSL_CTX_set_num_tickets(context_, 0), 1);
  // A peer that ends without notice is reported as closed. TcpTransport distinguishes an orderly
  // end by its goodbye message.
  SSL_CTX_set_options(context_, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_read_ahead(context_, 1);
  SSL_CTX_set_default_read_buffer_len(context_, kReadBytes);
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Load(const rpc::TlsFiles& files,
                                                             const std::string& job) {
  if (!files.mutual()) {
    return InvalidArgument(
        "TLS between ranks needs a certificate, a key and an authority [TD6015]; hint: set "
        "--tls_dir=DIR/JOB/trainer, or tls_cert, tls_key and tls_ca");
  }
  TD_RETURN_IF_ERROR(rpc::RequireIdentity(files, rpc::PeerRole::kTrainer, job).status());
  const std::shared_ptr<const TlsContext> made(new TlsContext(files, job));
  SSL_CTX* const context = made->context_;
  const bool used = SSL_CTX_load_verify_locations(context, files.ca.c_str(), nullptr) == 1 &&
                    SSL_CTX_use_certificate_chain_file(context, files.cert.c_str()) == 1 &&
                    SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) == 1;
  if (used) return made;
  return InvalidArgument("cannot use the TLS files: %s [TD6015]", rpc::OpensslError());
}

}  // namespace tandem::collective
