// A connection between two ranks after the handshake. With certificates the bytes are encrypted
// (tls_stream.h). Otherwise they are sent in records, each with a keyed checksum (record_seal.h).
// TryRecv verifies a record before it returns bytes of the record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/secure/moved.h"
#include "collective/secure/record_seal.h"
#include "collective/secure/tls_stream.h"
#include "common/os/fd.h"

namespace tandem::collective {

// A non-blocking connection. One thread may send while another thread receives.
class SealedSocket {
 public:
  using Moved = collective::Moved;

  SealedSocket() = default;  // an object without a connection
  // REQUIRES: `fd` is non-blocking.
  SealedSocket(Fd fd, const SessionKeys& keys);
  // Sends and receives through `tls`, which uses `fd`.
  // REQUIRES: the handshake of `tls` is done.
  SealedSocket(Fd fd, std::unique_ptr<TlsStream> tls);

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }

  // Sends as much of `head`, followed by `body`, as is possible now. If bytes remain, the next call
  // must pass the same remaining bytes, which may be in other memory.
  Moved TrySend(std::span<const std::byte> head, std::span<const std::byte> body);
  // Fills `head`, then `body`, with received bytes of one record. The next record needs another
  // call.
  Moved TryRecv(std::span<std::byte> head, std::span<std::byte> body);
  // Returns true if TryRecv may return bytes although the socket is not readable.
  bool holds_record() const { return tls_ != nullptr ? tls_->holds_bytes() : in_ && in_->whole; }

 private:
  // Maximum size of a record, in bytes. A record of this size fits into the processor's cache.
  static constexpr size_t kRecordBytesMax = 64 << 10;

  struct Out {
    explicit Out(const SessionKey& key) : seal(key) {}
    RecordSeal seal;
    RecordHead head;
    // Sent bytes of the record's header, and unsent bytes of the record.
    size_t head_sent = sizeof(RecordHead), left = 0;
  };
  struct In {
    explicit In(const SessionKey& key) : seal(key) {}
    RecordSeal seal;
    // Received bytes: a RecordHead and its record, perhaps followed by bytes of later records.
    std::vector<std::byte> bytes;
    size_t got = 0, at = 0;  // offsets in `bytes`: end of received bytes, next byte to return
    bool whole = false;      // true: `bytes` has a complete record whose checksum was verified
  };
  Moved Receive();  // kOpen with bytes > 0: a complete record was received
  size_t record_end() const;

  Fd fd_;
  std::unique_ptr<TlsStream> tls_;  // null: records with checksums
  std::optional<Out> out_;
  std::optional<In> in_;
};

}  // namespace tandem::collective
