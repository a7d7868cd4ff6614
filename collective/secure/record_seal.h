// The keyed checksum of what travels on a connection: AES-256-GMAC over each record, under a key
// and a counter of the connection's direction. So a record that was altered, repeated, left out,
// moved or put in by others is known for that. It is not encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct evp_cipher_ctx_st;

namespace tandem {

using SessionKey = std::array<uint8_t, 32>;

// Of a connection: one for each direction.
struct SessionKeys {
  SessionKey send = {}, receive = {};
};

// In front of each record.
struct RecordHead {
  uint32_t bytes = 0;  // that follow
  std::array<uint8_t, 16> tag = {};
};
static_assert(sizeof(RecordHead) == 20);

// One direction of a connection; for one thread.
class RecordSeal {
 public:
  explicit RecordSeal(const SessionKey& key);

  // The head of the next record, which consists of these two.
  RecordHead Seal(std::span<const std::byte> head, std::span<const std::byte> body);
  // Whether that is the next record, as its sender sealed it.
  bool Opens(const RecordHead& head, std::span<const std::byte> record);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };

  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  uint64_t records_ = 0;
};

}  // namespace tandem
