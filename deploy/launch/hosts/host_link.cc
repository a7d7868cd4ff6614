#include "deploy/launch/hosts/host_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/rpc/credentials/openssl_types.h"

namespace tandem::deploy {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr int kReadsMax = 16;  // reads of 16 KiB in one Step
constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr std::array<uint8_t, 2> kCipherNumber = {0x13, 0x01};  // RFC 8446, B.4

// Returns the session whose key both ends know. The caller owns the result.
SSL_SESSION* SessionOf(SSL* ssl, const LinkKey& key) {
  SSL_SESSION* const session = SSL_SESSION_new();
  CHECK(session != nullptr);
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherNumber.data());
  CHECK(cipher != nullptr);
  CHECK_EQ(SSL_SESSION_set1_master_key(session, key.key.data(), key.key.size()), 1);
  CHECK_EQ(SSL_SESSION_set_cipher(session, cipher), 1);
  CHECK_EQ(SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION), 1);
  return session;
}

// OpenSSL calls this function on the side that dials.
int OfferKey(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* bytes,
             SSL_SESSION** session) {
  const auto& key = *static_cast<const LinkKey*>(SSL_get_app_data(ssl));
  *identity = reinterpret_cast<const unsigned char*>(key.identity.data());
  *bytes = key.identity.size();
  *session = SessionOf(ssl, key);
  return 1;
}

// OpenSSL calls this function on the side that listens. Without a session the handshake fails,
// because this side has no certificate.
int FindKey(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session) {
  const auto& key = *static_cast<const LinkKey*>(SSL_get_app_data(ssl));
  const std::string offered(reinterpret_cast<const char*>(identity), bytes);
  *session = offered == key.identity ? SessionOf(ssl, key) : nullptr;
  return 1;
}

SSL* NewSsl(const LinkKey& key, HostLink::Side side) {
  const rpc::SslContextPtr context(SSL_CTX_new(TLS_method()));
  CHECK(context != nullptr) << rpc::OpensslError();
  CHECK_EQ(SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION), 1);
  CHECK_EQ(SSL_CTX_set_ciphersuites(context.get(), kCipher), 1);
  CHECK_EQ(SSL_CTX_set_num_tickets(context.get(), 0), 1);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context.get(), OfferKey);
  SSL_CTX_set_psk_find_session_callback(context.get(), FindKey);
  SSL* const ssl = SSL_new(context.get());
  CHECK(ssl != nullptr) << rpc::OpensslError();
  SSL_set_app_data(ssl, const_cast<LinkKey*>(&key));
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  if (side == HostLink::Side::kDialler) {
    // A listener that does not know the key could otherwise continue with a certificate.
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
    SSL_set_connect_state(ssl);
  } else {
    SSL_set_accept_state(ssl);
  }
  return ssl;
}

uint32_t LengthIn(const std::string& bytes) {
  uint32_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length = length << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return length;
}

// Returns the IPv4 address of one side of a connection.
std::string AddressOf(int socket, decltype(&::getpeername) side) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  char text[INET_ADDRSTRLEN] = "";
  if (side(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
  }
  return text;
}

}  // namespace

LinkKey LinkKey::Of(const std::string& job, const std::string& secret) {
  TD_REQUIRE(!secret.empty());
  LinkKey made;
  made.identity = "tandemrun 1 " + job;
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(made.identity.data()), made.identity.size(),
       made.key.data(), &size);
  CHECK_EQ(size, made.key.size());
  return made;
}

HostLink::HostLink(Fd socket, Side side, const LinkKey& key, Duration silence, Time now)
    : socket_(std::move(socket)),
      key_(key),
      silence_(silence),
      ssl_(NewSsl(key_, side)),
      began_(now),
      heard_(now),
      ping_at_(now + silence / 4) {
  TD_REQUIRE(silence > Duration::zero());
  TD_REQUIRE((::fcntl(socket_.get(), F_GETFL) & O_NONBLOCK) != 0);
}

HostLink::~HostLink() { SSL_free(ssl_); }

short HostLink::events() const {
  if (!lost_.ok()) return 0;
  // A dialler has bytes of the handshake to send as soon as it is connected.
  const bool sends = !unsent_.empty() || (established_ && !outgoing_.empty()) ||
                     SSL_get_state(ssl_) == TLS_ST_BEFORE;
  return static_cast<short>((ended_ ? 0 : POLLIN) | (sends ? POLLOUT : 0));
}

Time HostLink::wakeup() const {
  if (!lost_.ok()) return Time::max();
  return established_ ? std::min(ping_at_, heard_ + silence_) : began_ + silence_;
}

Status HostLink::Step(Time now) {
  if (!lost_.ok()) return lost_;
  // The bytes that arrived before an error are decoded first.
  const Status received = Receive(now);
  Status status;
  if (!established_) status = Handshake();
  if (status.ok() && established_) status = Decrypt();
  if (status.ok() && established_ && now >= ping_at_) {
    Send("");
    ping_at_ = now + silence_ / 4;
  }
  // An alert of TLS, which says why a handshake failed, is sent also after an error.
  const Status flushed = Flush();
  if (status.ok()) status = received.ok() ? flushed : received;
  if (status.ok() && ended_) status = Unavailable("its tandemrun has closed the connection");
  if (status.ok() && !established_ && now >= began_ + silence_) {
    status = DeadlineExceeded("it has not proved within %.1f s that it is a tandemrun of this job",
                              Seconds(silence_));
  }
  if (status.ok() && now >= heard_ + silence_) {
    status = DeadlineExceeded("its tandemrun has sent nothing for %.1f s", Seconds(now - heard_));
  }
  lost_ = status;
  return lost_;
}

Status HostLink::Receive(Time now) {
  char bytes[16 << 10];
  // A peer that sends faster than this process reads must not keep it in this loop.
  for (int reads = 0; !ended_ && reads < kReadsMax; ++reads) {
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (n > 0) {
      heard_ = now;
      CHECK_EQ(BIO_write(SSL_get_rbio(ssl_), bytes, static_cast<int>(n)), static_cast<int>(n));
      continue;
    }
    if (n == 0) {
      ended_ = true;
    } else if (errno == EAGAIN || errno == ENOTCONN || errno == EINTR) {
      break;
    } else {
      return Unavailable("the connection to its tandemrun broke: %s", ErrnoText(errno));
    }
  }
  return OkStatus();
}

Status HostLink::Handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) {
    if (SSL_session_reused(ssl_) != 1) {
      return PermissionDenied("it does not know the secret of this job [TD6014]");
    }
    established_ = true;
    return OkStatus();
  }
  const int reason = SSL_get_error(ssl_, result);
  if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) return OkStatus();
  return HandshakeError();
}

Status HostLink::HandshakeError() {
  return PermissionDenied(
      "it has another secret, belongs to another job, or is no tandemrun (%s) [TD6014]; hint: give "
      "all hosts a copy of one secret file and the same job file",
      rpc::OpensslError());
}

Status HostLink::Decrypt() {
  char bytes[16 << 10];
  while (true) {
    ERR_clear_error();
    // SSL_read() would pass the watch of gRPC's connections (common/rpc/tls_watch.h).
    size_t n = 0;
    const int result = SSL_read_ex(ssl_, bytes, sizeof(bytes), &n);
    if (result == 1) {
      incoming_.append(bytes, n);
      continue;
    }
    const int reason = SSL_get_error(ssl_, result);
    if (reason == SSL_ERROR_WANT_READ) break;
    if (reason == SSL_ERROR_ZERO_RETURN) {
      ended_ = true;
      break;
    }
    return DataLoss("messages of its tandemrun were altered on the network (%s) [TD6025]",
                    rpc::OpensslError());
  }
  size_t at = 0;
  while (incoming_.size() - at >= kLengthBytes) {
    const size_t length = LengthIn(incoming_.substr(at, kLengthBytes));
    if (length > kFrameBytesMax)
      return DataLoss("its tandemrun sent a message of %d bytes", length);
    if (incoming_.size() - at - kLengthBytes < length) break;
    // An empty frame is a ping.
    if (length > 0) frames_.push_back(incoming_.substr(at + kLengthBytes, length));
    at += kLengthBytes + length;
  }
  incoming_.erase(0, at);
  return OkStatus();
}

Status HostLink::Flush() {
  if (established_ && !outgoing_.empty()) {
    // The memory of OpenSSL takes all bytes.
    const int n = SSL_write(ssl_, outgoing_.data(), static_cast<int>(outgoing_.size()));
    if (n <= 0)
      return Unavailable("the connection to its tandemrun broke: %s", rpc::OpensslError());
    outgoing_.erase(0, static_cast<size_t>(n));
  }
  char bytes[16 << 10];
  for (int n = 0; (n = BIO_read(SSL_get_wbio(ssl_), bytes, sizeof(bytes))) > 0;) {
    unsent_.append(bytes, static_cast<size_t>(n));
  }
  while (!unsent_.empty()) {
    const ssize_t n = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (n > 0) {
      unsent_.erase(0, static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == ENOTCONN || errno == EINTR) {
      break;
    } else {
      return Unavailable("the connection to its tandemrun broke: %s", ErrnoText(errno));
    }
  }
  if (unsent_.size() <= kUnsentBytesMax) return OkStatus();
  return Unavailable("its tandemrun reads no messages");
}

void HostLink::Send(const std::string& frame) {
  TD_REQUIRE(frame.size() <= kFrameBytesMax);
  if (!lost_.ok()) return;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    outgoing_.push_back(static_cast<char>(frame.size() >> (8 * (kLengthBytes - 1 - i))));
  }
  outgoing_ += frame;
}

std::optional<std::string> HostLink::Take() {
  if (frames_.empty()) return std::nullopt;
  std::string frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

void HostLink::SendNoMore() { ::shutdown(socket_.get(), SHUT_WR); }

std::string HostLink::PeerAddress() const { return AddressOf(socket_.get(), ::getpeername); }
std::string HostLink::LocalAddress() const { return AddressOf(socket_.get(), ::getsockname); }

}  // namespace tandem::deploy
