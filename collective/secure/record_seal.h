// A keyed checksum for the bytes of a connection: AES-256-GMAC of each record. Each direction has
// its own key and record counter. The checksum detects records that an attacker altered, repeated,
// removed, reordered or inserted. The records are not encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct evp_cipher_ctx_st;

namespace tandem::collective {

using SessionKey = std::array<uint8_t, 32>;

// The keys of a connection, one for each direction.
struct SessionKeys {
  SessionKey send = {}, receive = {};
};

// The header that precedes each record of a connection.
struct RecordHead {
  uint32_t bytes = 0;  // size of the record in bytes, without this header
  std::array<uint8_t, 16> tag = {};
};
static_assert(sizeof(RecordHead) == 20);

// Seals or checks the records of one direction of a connection. Not thread-safe: for one thread.
class RecordSeal {
 public:
  explicit RecordSeal(const SessionKey& key);

  // Returns the header of the next record, whose content is `head` followed by `body`.
  RecordHead Seal(std::span<const std::byte> head, std::span<const std::byte> body);
  // Returns whether `record` is the next record of the connection, exactly as its sender sealed it.
  bool Opens(const RecordHead& head, std::span<const std::byte> record);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };

  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  uint64_t records_ = 0;
};

}  // namespace tandem::collective
