#include "collective/rendezvous/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/check.h"

namespace tandem::collective {

Status CheckGreeting(const Greeting& greeting) {
  if (greeting.magic != Greeting::kMagic) {
    return InvalidArgument(
        "the peer is not a rank of Tandem: its handshake begins with 0x%08x, expected 0x%08x",
        greeting.magic, Greeting::kMagic);
  }
  if (greeting.version != Greeting::kVersion) {
    return FailedPrecondition(
        "the peer speaks version %d of the handshake between ranks, this program speaks version %d "
        "[TD3013]; hint: install the same version of Tandem on all hosts",
        greeting.version, Greeting::kVersion);
  }
  return OkStatus();
}

Nonce FreshNonce() {
  Nonce nonce;
  CHECK_EQ(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())), 1) << "no random numbers";
  return nonce;
}

Mac MacOf(const std::string& secret, std::span<const std::byte> text) {
  Mac mac;
  unsigned int length = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &length);
  CHECK(done != nullptr && length == mac.size());
  return mac;
}

Mac MacOf(const std::string& secret, std::string_view role, const Hello& hello,
          const Challenge& challenge, std::span<const std::byte> more) {
  std::vector<std::byte> text;
  const auto append = [&text](std::span<const std::byte> bytes) {
    text.insert(text.end(), bytes.begin(), bytes.end());
  };
  append(std::as_bytes(std::span(role)));
  text.push_back(std::byte{0});
  append(std::as_bytes(std::span(&hello, 1)));
  append(std::as_bytes(std::span(&challenge, 1)));
  append(more);
  return MacOf(secret, text);
}

SessionKeys KeysOf(const std::string& secret, const Hello& hello, const Challenge& challenge,
                   bool dialled) {
  const Mac there = MacOf(secret, "key from dialler to listener", hello, challenge);
  const Mac back = MacOf(secret, "key from listener to dialler", hello, challenge);
  return dialled ? SessionKeys{there, back} : SessionKeys{back, there};
}

bool SameMac(const Mac& a, const Mac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void PutText(std::string_view text, std::span<char> field) {
  const size_t n = std::min(text.size(), field.size() - 1);
  std::memcpy(field.data(), text.data(), n);
  std::fill(field.begin() + static_cast<std::ptrdiff_t>(n), field.end(), '\0');
}

std::string GetText(std::span<const char> field) {
  std::string text(field.data(), strnlen(field.data(), field.size()));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace tandem::collective
