// A connection between two ranks that have passed the handshake. Bytes travel in records, each with
// a keyed checksum (record_seal.h). The receiver gets no byte of a record before the record is
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/secure/record_seal.h"
#include "common/os/fd.h"

namespace tandem::collective {

// One thread may send while another thread receives.
class SealedSocket {
 public:
  struct Moved {
    enum class End : uint8_t { kOpen, kClosed, kBroken, kForged };
    size_t bytes = 0;  // 0 with kOpen: nothing can be moved now
    End end = End::kOpen;
    int error = 0;  // kBroken: errno
  };

  static constexpr char kForgedText[] =
      "the received data differ from the data that the peer sent: they were altered, repeated or "
      "removed on the network [TD6025]; hint: look for a program that relays connections between "
      "these hosts";

  SealedSocket() = default;  // no connection
  // REQUIRES that `fd` is non-blocking.
  SealedSocket(Fd fd, const SessionKeys& keys);

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }

  // Sends as much of `head`, then `body`, as is possible now. The caller must pass the unsent bytes
  // again in the next call, from the same memory or from other memory with the same bytes.
  Moved TrySend(std::span<const std::byte> head, std::span<const std::byte> body);
  // Fills `head`, then `body`, with received bytes; at most to the end of one record.
  Moved TryRecv(std::span<std::byte> head, std::span<std::byte> body);
  // True if TryRecv can return bytes without reading from the socket.
  bool holds_record() const { return in_ && in_->whole; }

 private:
  static constexpr size_t kRecordBytesMax = 64 << 10;  // small enough to stay in the cache

  struct Out {
    explicit Out(const SessionKey& key) : seal(key) {}
    RecordSeal seal;
    RecordHead head;
    size_t head_sent = sizeof(RecordHead), left = 0;  // bytes of the record
  };
  struct In {
    explicit In(const SessionKey& key) : seal(key) {}
    RecordSeal seal;
    std::vector<std::byte> bytes;  // a record with its head, and perhaps a part of the next records
    size_t got = 0, at = 0;  // offsets in `bytes`: end of the received bytes; next byte to return
    bool whole = false;      // a complete record is in `bytes` and was checked
  };
  Moved Receive();  // kOpen with bytes: a complete record has been received
  size_t record_end() const;

  Fd fd_;
  std::optional<Out> out_;
  std::optional<In> in_;
};

}  // namespace tandem::collective
