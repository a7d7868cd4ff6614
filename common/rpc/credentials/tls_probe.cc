#include "common/rpc/credentials/tls_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/os/fd.h"
#include "common/os/host_limits.h"
#include "common/rpc/credentials/certificates.h"
#include "common/rpc/credentials/openssl_types.h"

namespace tandem::rpc {
namespace {

constexpr int kWaitMillis = 1000;
// The bytes that an HTTP/2 client sends first: the preface (RFC 9113, 3.4) and an empty SETTINGS
// frame. A server replies with its own SETTINGS frame.
constexpr std::string_view kHttp2Hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

// Blocks SIGPIPE in this thread until destruction. OpenSSL writes without MSG_NOSIGNAL, so a peer
// that closes the connection would otherwise end the program. The destructor consumes a SIGPIPE
// that is pending for this thread.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec none{};
    if (!pending_) sigtimedwait(&pipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
  bool pending_;
};

void LimitWaits(int fd, Duration patience = {}) {
  const auto millis = std::max<int64_t>(kWaitMillis, static_cast<int64_t>(Millis(patience)));
  const timeval limit{millis / 1000, 1000 * (millis % 1000)};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  // This option also limits the duration of connect().
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

StatusOr<Fd> DialPath(const Endpoint& server) {
  sockaddr_un address{};
  CHECK(server.path.size() < sizeof(address.sun_path));
  address.sun_family = AF_UNIX;
  std::copy(server.path.begin(), server.path.end(), address.sun_path);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError("cannot create a socket to " + ToString(server), errno);
  LimitWaits(fd.get());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  return Unavailable("cannot connect to %s: %s [TD4001]", ToString(server), ErrnoText(errno));
}

StatusOr<Fd> Dial(const Endpoint& server) {
  if (server.is_unix()) return DialPath(server);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(server.port);
  if (const int error =
          getaddrinfo(NumericLocalhost(server.host).c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return Unavailable("cannot resolve host %s: %s [TD4001]", server.host, gai_strerror(error));
  }
  Fd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool made = fd.valid();
  if (made) LimitWaits(fd.get());
  const bool connected = made && connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (!made) return SystemError("cannot create a socket to " + ToString(server), error);
  if (!connected)
    return Unavailable("cannot connect to %s: %s [TD4001]", ToString(server), ErrnoText(error));
  return fd;
}

// A connection to a server and the state of its TLS handshake.
struct Handshake {
  Fd socket;
  SslContextPtr context;
  SslPtr ssl;
  bool done = false;
  int error = 0;       // result of SSL_get_error if the handshake is not done
  std::string reason;  // error text of OpenSSL
  bool server_spoke() const { return SSL_get_state(ssl.get()) != TLS_ST_CW_CLNT_HELLO; }
};

Status UseFiles(const TlsFiles& tls, SSL_CTX* context) {
  const bool used =
      SSL_CTX_load_verify_locations(context, tls.ca.c_str(), nullptr) == 1 &&
      (tls.cert.empty() ||
       (SSL_CTX_use_certificate_chain_file(context, tls.cert.c_str()) == 1 &&
        SSL_CTX_use_PrivateKey_file(context, tls.key.c_str(), SSL_FILETYPE_PEM) == 1));
  return used ? OkStatus()
              : InvalidArgument("cannot use the TLS files: %s [TD6015]", OpensslError());
}

// Connects to `server` and tries a TLS handshake. `tls` null: the handshake uses no files and
// verifies no certificate, because it only shows whether the server uses TLS.
StatusOr<Handshake> ShakeHands(const Endpoint& server, const TlsFiles* tls,
                               Duration patience = {}) {
  Handshake shake;
  TD_ASSIGN_OR_RETURN(shake.socket, Dial(server));
  LimitWaits(shake.socket.get(), patience);
  shake.context.reset(SSL_CTX_new(TLS_client_method()));
  CHECK(shake.context != nullptr);
  SSL_CTX_set_min_proto_version(shake.context.get(), TLS1_2_VERSION);
  if (tls != nullptr) {
    TD_RETURN_IF_ERROR(UseFiles(*tls, shake.context.get()));
    SSL_CTX_set_verify(shake.context.get(), SSL_VERIFY_PEER, nullptr);
  }
  constexpr unsigned char kAlpn[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(shake.context.get(), kAlpn, sizeof(kAlpn));
  shake.ssl.reset(SSL_new(shake.context.get()));
  SSL_set_fd(shake.ssl.get(), shake.socket.get());
  const int result = SSL_connect(shake.ssl.get());
  shake.done = result == 1;
  if (!shake.done) {
    shake.error = SSL_get_error(shake.ssl.get(), result);
    shake.reason = OpensslError();
  }
  return shake;
}

std::string Named(X509* cert) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), cert);
  const auto facts = ReadCertificate(TextOf(bio.get()));
  if (!facts.ok()) return "it";
  return facts->identity ? ToUri(*facts->identity) : facts->subject;
}

Status HandshakeFailed(const Endpoint& server, const TlsFiles& tls, const Handshake& shake) {
  const std::string at = ToString(server);
  if (const long verdict = SSL_get_verify_result(shake.ssl.get()); verdict != X509_V_OK) {
    const bool dates =
        verdict == X509_V_ERR_CERT_HAS_EXPIRED || verdict == X509_V_ERR_CERT_NOT_YET_VALID;
    return Unauthenticated(
        "this client rejects the certificate of the server at %s: %s [TD6005]; hint: %s", at,
        X509_verify_cert_error_string(verdict),
        dates ? "check the clock of this machine, and renew the certificate with tandem certs issue"
              : "check that " + tls.ca + " is the authority of this pserver certificate");
  }
  if (shake.server_spoke()) {
    return Unavailable("the server at %s aborted the TLS handshake: %s", at, shake.reason);
  }
  if (shake.error == SSL_ERROR_SSL) {
    return FailedPrecondition(
        "the server at %s does not use TLS, but this client does [TD6004]; hint: set tls_dir for "
        "server and client, or for neither",
        at);
  }
  return Unavailable("the server at %s did not reply to the TLS handshake in time [TD4001]", at);
}

// Checks the certificate that the server presented in the handshake: its host name and its
// identity. The handshake has already verified the signature.
Status CheckServer(const Endpoint& server, SSL* ssl, const std::string& server_uri) {
  const CertPtr cert(SSL_get1_peer_certificate(ssl));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), cert.get());
  TD_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(TextOf(bio.get())));
  if (X509_check_ip_asc(cert.get(), server.host.c_str(), 0) != 1 &&
      X509_check_host(cert.get(), server.host.c_str(), server.host.size(), 0, nullptr) != 1) {
    return Unauthenticated(
        "the certificate of the server at %s is for %s, not for %s [TD6006]; hint: run tandem "
        "certs issue DIR --job=JOB --role=pserver --host=%s",
        ToString(server), facts.hosts.empty() ? "no host" : absl::StrJoin(facts.hosts, ", "),
        server.host, server.host);
  }
  if (server_uri.empty() || (facts.uris.size() == 1 && facts.uris[0] == server_uri)) {
    return OkStatus();
  }
  return PermissionDenied("the server at %s identifies itself as %s, expected %s [TD6006]",
                          ToString(server), Named(cert.get()), server_uri);
}

// Waits for a reply of the server, which shows that the server accepted this client's certificate.
// In TLS 1.3 the client's handshake ends before the server has verified the certificate.
Status CheckAccepted(const Endpoint& server, const TlsFiles& tls, SSL* ssl) {
  SSL_write(ssl, kHttp2Hello.data(), static_cast<int>(kHttp2Hello.size()));
  char answer[9];
  const int got = SSL_read(ssl, answer, sizeof(answer));
  if (got > 0) return OkStatus();
  const bool timeout = SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  if (timeout)
    return Unavailable("the server at %s did not reply in time [TD4001]", ToString(server));
  if (tls.cert.empty()) {
    return Unauthenticated(
        "the server at %s requires a certificate, but this client has none [TD6007]; hint: set "
        "tls_dir, or tls_cert and tls_key",
        ToString(server));
  }
  return Unauthenticated(
      "the server at %s rejects certificate %s (%s) [TD6007]; hint: check with tandem certs show "
      "that the authority in the server's ca.crt signed this certificate",
      ToString(server), tls.cert, Named(SSL_get_certificate(ssl)));
}

// Checks that the server does not use TLS: only a server with TLS replies to a ClientHello with TLS
// records.
Status ProbePlain(const Endpoint& server) {
  TD_ASSIGN_OR_RETURN(const Handshake shake, ShakeHands(server, nullptr));
  if (!shake.done && !shake.server_spoke()) return OkStatus();
  return FailedPrecondition(
      "the server at %s uses TLS, but this client does not [TD6003]; hint: set tls_dir",
      ToString(server));
}

}  // namespace

Status ProbeConnection(const Endpoint& server, const TlsFiles& tls, const std::string& server_uri,
                       Duration patience) {
  const WithoutSigpipe quiet;
  // gRPC finds the address that answers. A probe of one of them could not tell.
  if (!server.others.empty()) return OkStatus();
  if (!tls.enabled()) return ProbePlain(server);
  TD_RETURN_IF_ERROR(CheckTlsFiles(tls).status());
  TD_ASSIGN_OR_RETURN(const Handshake shake, ShakeHands(server, &tls, patience));
  if (!shake.done) return HandshakeFailed(server, tls, shake);
  TD_RETURN_IF_ERROR(CheckServer(server, shake.ssl.get(), server_uri));
  return CheckAccepted(server, tls, shake.ssl.get());
}

}  // namespace tandem::rpc
