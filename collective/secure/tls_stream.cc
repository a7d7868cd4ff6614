#include "collective/secure/tls_stream.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/rpc/credentials/certificates.h"
#include "common/rpc/credentials/openssl_types.h"

namespace tandem::collective {
namespace {

// One key may encrypt 2^24.5 full records (RFC 8446 5.5), which have 388 GiB. The sender changes
// its key earlier.
constexpr uint64_t kRekeyBytes = uint64_t{64} << 30;

constexpr char kBindingLabel[] = "EXPORTER-Tandem-ranks";

// Appends what OpenSSL writes to a vector. The memory BIO of OpenSSL would set its memory to zero
// before each use.
int Append(BIO* bio, const char* data, int size) {
  auto* const bytes = static_cast<std::vector<char>*>(BIO_get_data(bio));
  bytes->insert(bytes->end(), data, data + size);
  return size;
}

long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

// Returns a BIO that writes to `bytes`.
BIO* NewVectorBio(std::vector<char>* bytes) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "vector");
    CHECK(made != nullptr && BIO_meth_set_write(made, Append) == 1 &&
          BIO_meth_set_ctrl(made, Control) == 1);
    return made;
  }();
  BIO* const bio = BIO_new(method);
  CHECK(bio != nullptr);
  BIO_set_data(bio, bytes);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, int fd, Side side,
                     uint64_t rekey_bytes)
    : context_(std::move(context)),
      fd_(fd),
      rekey_bytes_(rekey_bytes == 0 ? kRekeyBytes : rekey_bytes),
      ssl_(SSL_new(context_->get())) {
  TD_REQUIRE((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
  CHECK(ssl_ != nullptr) << rpc::OpensslError();
  // OpenSSL reads the socket itself. It writes to memory, because a write of OpenSSL to a closed
  // socket would raise SIGPIPE.
  CHECK_EQ(SSL_set_rfd(ssl_, fd), 1);
  SSL_set0_wbio(ssl_, NewVectorBio(&encrypted_));
  if (side == Side::kDialler) {
    SSL_set_connect_state(ssl_);
  } else {
    SSL_set_accept_state(ssl_);
  }
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

StatusOr<TlsStream::Progress> TlsStream::Handshake() {
  MutexLock lock(mu_);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  const int reason = SSL_get_error(ssl_, result);
  Status error;
  if (result != 1 && reason != SSL_ERROR_WANT_READ) error = HandshakeError(reason);
  // The alert of a failed handshake tells the peer why it failed.
  const Moved flushed = Flush();
  TD_RETURN_IF_ERROR(error);
  if (flushed.end != Moved::End::kOpen) {
    return Unavailable("the connection ended during the TLS handshake: %s",
                       ErrnoText(flushed.error));
  }
  if (flushed.bytes == 0) return Progress::kNeedsWrite;
  if (result != 1) return Progress::kNeedsRead;
  TD_RETURN_IF_ERROR(CheckPeer());
  return Progress::kDone;
}

Status TlsStream::HandshakeError(int reason) {
  const int system = errno;
  const long verdict = SSL_get_verify_result(ssl_);
  if (verdict != X509_V_OK) {
    ERR_clear_error();
    const bool dates =
        verdict == X509_V_ERR_CERT_HAS_EXPIRED || verdict == X509_V_ERR_CERT_NOT_YET_VALID;
    return Unauthenticated(
        "this rank rejects its certificate: %s [TD6005]; hint: %s",
        X509_verify_cert_error_string(verdict),
        dates ? "check the clocks of both hosts, and renew the certificate with tandem certs issue"
              : "check that " + context_->files().ca + " is the authority of that certificate");
  }
  if (reason == SSL_ERROR_SSL) return OpensslFailure();
  return Unavailable(
      "it closed the connection during the TLS handshake (%s)",
      reason == SSL_ERROR_SYSCALL && system != 0 ? ErrnoText(system) : "no system error");
}

Status TlsStream::OpensslFailure() {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  const std::string text = rpc::OpensslError();
  if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_NO_SHARED_CIPHER ||
      reason == SSL_AD_REASON_OFFSET + TLS1_AD_PROTOCOL_VERSION ||
      reason == SSL_AD_REASON_OFFSET + SSL3_AD_HANDSHAKE_FAILURE) {
    return FailedPrecondition(
        "the two OpenSSL libraries have no common version or cipher of TLS 1.3 (%s) [TD6004]; "
        "hint: compare the settings of OpenSSL on both hosts",
        text);
  }
  if (reason < SSL_AD_REASON_OFFSET) return DataLoss("%s (%s)", kForgedText, text);
  const int alert = reason - SSL_AD_REASON_OFFSET;
  if ((alert >= SSL3_AD_BAD_CERTIFICATE && alert <= SSL3_AD_CERTIFICATE_UNKNOWN) ||
      alert == TLS1_AD_UNKNOWN_CA || alert == TLS13_AD_CERTIFICATE_REQUIRED) {
    return Unauthenticated(
        "it rejects certificate %s (%s) [TD6007]; hint: check with tandem certs show that the "
        "authority in its ca.crt signed this certificate",
        context_->files().cert, text);
  }
  return Unavailable("it ended the TLS connection (%s) [TD3005]; hint: look at its log", text);
}

Status TlsStream::CheckPeer() {
  const rpc::CertPtr cert(SSL_get1_peer_certificate(ssl_));
  CHECK(cert != nullptr);
  const rpc::BioPtr bio(BIO_new(BIO_s_mem()));
  CHECK_EQ(PEM_write_bio_X509(bio.get(), cert.get()), 1);
  TD_ASSIGN_OR_RETURN(const rpc::CertificateFacts facts,
                      rpc::ReadCertificate(rpc::TextOf(bio.get())));
  const auto& identity = facts.identity;
  const std::string& job = context_->job();
  if (identity && identity->role == rpc::PeerRole::kTrainer &&
      (job.empty() || identity->job == job)) {
    return OkStatus();
  }
  return PermissionDenied(
      "its certificate is of %s, expected role trainer of job \"%s\" [TD6006]; hint: run tandem "
      "certs issue DIR --job=%s --role=trainer",
      identity ? rpc::ToUri(*identity) : facts.subject, job, job.empty() ? "JOB" : job);
}

TlsStream::Binding TlsStream::ChannelBinding() {
  MutexLock lock(mu_);
  TD_REQUIRE(SSL_is_init_finished(ssl_) == 1);
  Binding binding;
  CHECK_EQ(SSL_export_keying_material(ssl_, binding.data(), binding.size(), kBindingLabel,
                                      sizeof(kBindingLabel) - 1, nullptr, 0, 0),
           1);
  return binding;
}

void TlsStream::Encrypt(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (keyed_ >= rekey_bytes_) {
    CHECK_EQ(SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED), 1) << rpc::OpensslError();
    keyed_ = 0;
  }
  keyed_ += bytes.size();
  // A write to memory takes all bytes.
  CHECK_EQ(SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())),
           static_cast<int>(bytes.size()))
      << rpc::OpensslError();
}

Moved TlsStream::Flush() {
  while (flushed_ < encrypted_.size()) {
    const ssize_t n = ::send(fd_, encrypted_.data() + flushed_, encrypted_.size() - flushed_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return FailedMove(errno);
    flushed_ += static_cast<size_t>(n);
  }
  encrypted_.clear();
  flushed_ = 0;
  return {.bytes = 1};
}

Moved TlsStream::TrySend(std::span<const std::byte> head, std::span<const std::byte> body) {
  MutexLock lock(mu_);
  ERR_clear_error();
  if (end_.end == Moved::End::kForged) return end_;  // OpenSSL sends nothing more
  if (pending_ == 0) {
    head = head.first(std::min(head.size(), kRecordBytes));
    // The first record has the head and the begin of the body, because a message is often short.
    const size_t together = head.empty() ? 0 : std::min(body.size(), kRecordBytes - head.size());
    if (!head.empty()) {
      std::array<std::byte, kRecordBytes> record;
      std::copy(head.begin(), head.end(), record.begin());
      std::copy_n(body.begin(), together, record.begin() + static_cast<ssize_t>(head.size()));
      Encrypt(std::span(record).first(head.size() + together));
    }
    const size_t rest = std::min(body.size(), kBatchBytes - head.size()) - together;
    Encrypt(body.subspan(together, rest));
    pending_ = head.size() + together + rest;
    if (pending_ == 0) return {};
  }
  const Moved flushed = Flush();
  if (flushed.bytes == 0) return flushed;
  return {.bytes = std::exchange(pending_, 0)};
}

Moved TlsStream::Decrypt(std::span<std::byte> to) {
  Moved moved;
  while (moved.bytes < to.size()) {
    if (end_.end != Moved::End::kOpen) return moved.bytes > 0 ? moved : end_;
    size_t n = 0;
    errno = 0;
    const auto rest = to.subspan(moved.bytes);
    if (SSL_read_ex(ssl_, rest.data(), rest.size(), &n) == 1) {
      moved.bytes += n;
      continue;
    }
    holds_ = false;
    const int reason = SSL_get_error(ssl_, 0);
    if (reason == SSL_ERROR_WANT_READ) return moved;
    if (reason == SSL_ERROR_SSL) {
      end_.end = Moved::End::kForged;
      failure_ = OpensslFailure();
    } else if (reason == SSL_ERROR_ZERO_RETURN || errno == 0) {
      end_.end = Moved::End::kClosed;
    } else {
      end_ = FailedMove(errno);
      if (end_.end == Moved::End::kOpen) return moved;
    }
  }
  return moved;
}

Moved TlsStream::TryRecv(std::span<std::byte> head, std::span<std::byte> body) {
  MutexLock lock(mu_);
  if (head.empty() && body.empty()) return {};
  ERR_clear_error();
  holds_ = true;
  Moved moved = Decrypt(head);
  if (moved.end != Moved::End::kOpen || moved.bytes < head.size() || body.empty()) return moved;
  const Moved then = Decrypt(body);
  if (moved.bytes == 0) return then;
  moved.bytes += then.bytes;
  return moved;
}

bool TlsStream::holds_bytes() const {
  MutexLock lock(mu_);
  return holds_;
}

}  // namespace tandem::collective
