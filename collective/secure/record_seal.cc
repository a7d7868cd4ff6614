#include "collective/secure/record_seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstring>

#include "common/base/check.h"

namespace tandem::collective {

void RecordSeal::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

RecordSeal::RecordSeal(const SessionKey& key) : context_(EVP_CIPHER_CTX_new()) {
  CHECK(context_ != nullptr);
  CHECK_EQ(EVP_EncryptInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, key.data(), nullptr), 1);
}

RecordHead RecordSeal::Seal(std::span<const std::byte> head, std::span<const std::byte> body) {
  RecordHead sealed;
  sealed.bytes = static_cast<uint32_t>(head.size() + body.size());
  // The nonce contains the number of the record, so each record of a key has its own nonce. The
  // nonce also contains the length, so that the tag covers the length.
  std::array<uint8_t, 12> number;
  std::memcpy(number.data(), &records_, sizeof(records_));
  std::memcpy(number.data() + sizeof(records_), &sealed.bytes, sizeof(sealed.bytes));
  ++records_;
  EVP_CIPHER_CTX* const gmac = context_.get();
  int ignored = 0;
  bool good = EVP_EncryptInit_ex(gmac, nullptr, nullptr, nullptr, number.data()) == 1;
  for (const auto& part : {head, body}) {
    if (part.empty()) continue;
    good = good && EVP_EncryptUpdate(gmac, nullptr, &ignored,
                                     reinterpret_cast<const unsigned char*>(part.data()),
                                     static_cast<int>(part.size())) == 1;
  }
  good = good && EVP_EncryptFinal_ex(gmac, nullptr, &ignored) == 1;
  good = good && EVP_CIPHER_CTX_ctrl(gmac, EVP_CTRL_AEAD_GET_TAG,
                                     static_cast<int>(sealed.tag.size()), sealed.tag.data()) == 1;
  CHECK(good) << "no AES-GMAC";
  return sealed;
}

bool RecordSeal::Opens(const RecordHead& head, std::span<const std::byte> record) {
  const RecordHead expected = Seal({}, record);
  return head.bytes == expected.bytes &&
         CRYPTO_memcmp(head.tag.data(), expected.tag.data(), expected.tag.size()) == 0;
}

}  // namespace tandem::collective
