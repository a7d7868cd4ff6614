#include "common/rpc/credentials/session_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "common/base/check.h"

namespace tandem::rpc {
namespace {

constexpr size_t kCounterBytes = 8;
constexpr size_t kStampBytes = kSessionIdBytes + kCounterBytes + kProofBytes;

// Labels for HMAC texts. Each label ends with its only zero byte, so two texts with different
// labels are never equal.
constexpr std::string_view kServerLabel("tandem session 1 server", 24);
constexpr std::string_view kKeyLabel("tandem session 1 key", 21);
constexpr std::string_view kCallLabel("tandem session 1 call", 22);

std::string Hmac(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest,
             &size) != nullptr);
  CHECK_EQ(size, kProofBytes);
  return {reinterpret_cast<const char*>(digest), size};
}

// Returns the text from which the proofs are computed. The fields of fixed size come first, so that
// different terms never give the same text.
std::string ProofText(std::string_view label, const SessionTerms& terms) {
  CHECK_EQ(terms.client_nonce.size(), kNonceBytes);
  CHECK_EQ(terms.server_nonce.size(), kNonceBytes);
  CHECK_EQ(terms.id.size(), kSessionIdBytes);
  std::string text(label);
  return text + terms.client_nonce + terms.server_nonce + terms.id + terms.job;
}

std::string BigEndian(uint64_t number) {
  std::string bytes(kCounterBytes, '\0');
  for (size_t i = kCounterBytes; i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number & 255);
  return bytes;
}

uint64_t FromBigEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

}  // namespace

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)), 1)
      << "no random numbers";
  return bytes;
}

std::string ServerProof(std::string_view secret, const SessionTerms& terms) {
  return Hmac(secret, ProofText(kServerLabel, terms));
}

std::string SessionKey(std::string_view secret, const SessionTerms& terms) {
  return Hmac(secret, ProofText(kKeyLabel, terms));
}

std::string CallProof(std::string_view key, uint64_t counter, std::string_view method) {
  return Hmac(key, std::string(kCallLabel) + BigEndian(counter) + std::string(method));
}

bool ProofsEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string EncodeStamp(const CallStamp& stamp) {
  return stamp.session + BigEndian(stamp.counter) + stamp.proof;
}

std::optional<CallStamp> DecodeStamp(std::string_view bytes) {
  if (bytes.size() != kStampBytes) return std::nullopt;
  return CallStamp{std::string(bytes.substr(0, kSessionIdBytes)),
                   FromBigEndian(bytes.substr(kSessionIdBytes, kCounterBytes)),
                   std::string(bytes.substr(kSessionIdBytes + kCounterBytes))};
}

}  // namespace tandem::rpc
