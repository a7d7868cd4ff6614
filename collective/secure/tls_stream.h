// TLS 1.3 on the connection between two ranks. TlsStream encrypts what a rank sends and verifies
// what it receives. It works on a non-blocking socket and never waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/secure/moved.h"
#include "collective/secure/tls_context.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

struct ssl_st;

namespace tandem::collective {

// Thread-safe: one thread may send while another thread receives.
class TlsStream {
 public:
  enum class Side : uint8_t { kDialler, kListener };
  // The state of the handshake: complete, or the event of the socket that it waits for.
  enum class Progress : uint8_t { kDone, kNeedsRead, kNeedsWrite };
  using Binding = std::array<uint8_t, 32>;

  // `fd`: a connected socket, which must stay open while this object lives. `rekey_bytes`: number
  // of sent bytes after which the sender changes its key; 0: the default of 64 GiB.
  // REQUIRES: `fd` is non-blocking.
  TlsStream(std::shared_ptr<const TlsContext> context, int fd, Side side, uint64_t rekey_bytes = 0);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Continues the handshake. Must be called again after the event that it returns, until kDone.
  // UNAUTHENTICATED: this rank rejects the peer's certificate, or the peer rejects this rank's
  // certificate. PERMISSION_DENIED: the peer's certificate is for another role or job. UNAVAILABLE:
  // the connection ended. FAILED_PRECONDITION: the two sides have no common version or cipher of
  // TLS. DATA_LOSS: the received bytes are not TLS, or were altered.
  StatusOr<Progress> Handshake() TD_EXCLUDES(mu_);
  // Returns a number that only the two ends of this connection know (RFC 8446 7.5). With it the
  // ranks prove that no program relays the connection.
  // REQUIRES: the handshake is done.
  Binding ChannelBinding() TD_EXCLUDES(mu_);

  // TrySend and TryRecv are described in sealed_socket.h. A send counts bytes when the kernel has
  // all their encrypted bytes.
  Moved TrySend(std::span<const std::byte> head, std::span<const std::byte> body) TD_EXCLUDES(mu_);
  Moved TryRecv(std::span<std::byte> head, std::span<std::byte> body) TD_EXCLUDES(mu_);
  // Returns why TryRecv returned kForged: the peer rejects this rank's certificate
  // (UNAUTHENTICATED), the peer ended TLS (UNAVAILABLE), or received bytes were altered
  // (DATA_LOSS).
  Status failure() const TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return failure_;
  }
  // Returns true if received bytes may wait in this object, so that the socket need not become
  // readable.
  bool holds_bytes() const TD_EXCLUDES(mu_);

 private:
  // Size in bytes of a record of TLS, and the most bytes that one call of TrySend encrypts.
  static constexpr size_t kRecordBytes = 16 << 10;
  static constexpr size_t kBatchBytes = 4 * kRecordBytes;

  Status CheckPeer() TD_REQUIRES(mu_);
  Status HandshakeError(int reason) TD_REQUIRES(mu_);
  Status OpensslFailure() TD_REQUIRES(mu_);  // takes the error that OpenSSL stored in this thread
  void Encrypt(std::span<const std::byte> bytes) TD_REQUIRES(mu_);
  Moved Flush() TD_REQUIRES(mu_);  // bytes: 1 if the kernel has all encrypted bytes, otherwise 0
  // Decrypts bytes into `to`. Returns fewer bytes than `to` has room for if no more have arrived.
  // An error that follows received bytes is returned by the next call.
  Moved Decrypt(std::span<std::byte> to) TD_REQUIRES(mu_);

  const std::shared_ptr<const TlsContext> context_;
  const int fd_;
  const uint64_t rekey_bytes_;
  mutable Mutex mu_;
  ssl_st* const ssl_;
  std::vector<char> encrypted_ TD_GUARDED_BY(mu_);  // encrypted bytes, not all of them sent
  size_t flushed_ TD_GUARDED_BY(mu_) = 0;           // sent bytes of encrypted_
  size_t pending_ TD_GUARDED_BY(mu_) = 0;  // bytes of the caller that these encrypted bytes contain
  uint64_t keyed_ TD_GUARDED_BY(mu_) = 0;  // bytes encrypted with the present key
  bool holds_ TD_GUARDED_BY(mu_) = false;
  Moved end_ TD_GUARDED_BY(mu_);  // why no more bytes can be received; kOpen: more can
  Status failure_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::collective
