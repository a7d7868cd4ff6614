// The bytes of one slice of a push. The bytes are owned, or are part of the received message.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "common/base/require.h"
#include "common/tensor/device.h"

namespace tandem::pserver {

// Owns the bytes, or refers to bytes in the received message. The message must then outlive this
// object, and the bytes in the message must not be written.
class PushBytes {
 public:
  PushBytes(Buffer owned) : owner_(std::move(owned)), data_(owner_.get()) {}  // NOLINT
  static PushBytes InMessage(const void* data) { return PushBytes(data); }

  bool owned() const { return !in_message_; }
  const std::byte* data() const { return data_; }
  // Returns the bytes for writing. REQUIRES: owned().
  std::byte* mutable_data() {
    TD_REQUIRE(owned());
    return owner_.get();
  }
  // Returns the buffer that owns the bytes. REQUIRES: owned().
  const Buffer& buffer() const {
    TD_REQUIRE(owned());
    return owner_;
  }
  // Returns the buffer that owns the bytes, and leaves this object without bytes. REQUIRES:
  // owned().
  Buffer Take() && {
    TD_REQUIRE(owned());
    data_ = nullptr;
    return std::move(owner_);
  }

 private:
  explicit PushBytes(const void* data)
      : data_(static_cast<const std::byte*>(data)), in_message_(true) {}

  Buffer owner_;
  const std::byte* data_;
  bool in_message_ = false;
};

inline std::span<const float> Floats(const PushBytes& bytes, int64_t numel) {
  return {reinterpret_cast<const float*>(bytes.data()), static_cast<size_t>(numel)};
}

}  // namespace tandem::pserver
