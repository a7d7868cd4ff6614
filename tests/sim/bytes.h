// Copies encoded messages into one contiguous string.
#pragma once

#include <string>

#include "common/codec/tensor_codec.h"

namespace tandem::pserver {

inline std::string Flat(const codec::EncodedMessage& message) {
  std::string bytes;
  for (const codec::EncodedMessage::Piece& p : message.pieces) {
    if (p.data != nullptr) {
      bytes.append(static_cast<const char*>(p.data), p.bytes);
    } else {
      bytes.append(p.owned);
    }
  }
  return bytes;
}

}  // namespace tandem::pserver
