// Encodes and decodes the messages with tensors (PushRequest, PushReply and PullReply of
// proto/pserver.proto) without protobuf. The bytes are those of protobuf. The sender references
// tensors; the receiver copies them once, to their destination. (Measured on loopback: a `bytes`
// field of protobuf costs 4 times as much for 64 MiB.) This file does not use gRPC; byte_buffer.h
// converts between the two.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/codec/wire.h"
#include "common/tables/push_header.h"
#include "common/tensor/types.h"

namespace tandem::codec {

// A message to send: owned bytes and referenced memory, in order.
struct EncodedMessage {
  struct Piece {
    std::string owned;           // used if data is nullptr
    const void* data = nullptr;  // referenced memory of `bytes` bytes
    size_t bytes = 0;
    std::shared_ptr<const void> keep;  // owner of `data`; may be null
  };
  std::vector<Piece> pieces;
  size_t bytes() const;
};

// A tensor with the elements [offset, offset + numel) of a flattened variable.
struct CodedSlice {
  std::string variable;
  int64_t offset = 0;
  TensorDesc desc;
  // For sending: desc.bytes() bytes. They must not change until the message is destroyed.
  const void* data = nullptr;
  std::shared_ptr<const void> keep;
  // For receiving: the location in the message, and the checksum if the message has one.
  ByteRange content;
  std::optional<uint32_t> crc32c;
};

struct CodedPush {
  PushHeader header;
  std::vector<CodedSlice> slices;
  std::string pull;  // a serialized PullRequest; empty: none
};

// Mirrors ServerTimes of proto/pserver.proto.
struct CodedTimes {
  uint64_t received = 0, answered = 0, update_begin = 0, update_end = 0;
};

struct CodedPullReply {
  uint64_t version = 0, server_incarnation = 0;
  std::vector<CodedSlice> slices;
  CodedTimes times = {};
};

struct CodedPushReply {
  uint64_t version = 0, server_incarnation = 0;
  bool duplicate = false;
  std::optional<CodedPullReply> pulled;
  CodedTimes times = {};  // only for a push without pull
  uint64_t log_number = 0, kept_number = 0;
};

// The version and times of a reply.
struct AnswerHead {
  uint64_t version = 0;
  bool pulled = false;  // true: they are those of a pull
  CodedTimes times;
};

// Contents of at least this size are referenced; smaller ones are copied into the message.
inline constexpr size_t kReferenceBytesMin = 4096;

EncodedMessage EncodePush(const CodedPush& push, bool crc32c);
EncodedMessage EncodePullReply(const CodedPullReply& reply, bool crc32c);
EncodedMessage EncodePushReply(const CodedPushReply& reply, bool crc32c);

// INVALID_ARGUMENT: the bytes are not such a message, or an element type, a shape or the length of
// a content is invalid. Only names and numbers are copied.
StatusOr<CodedPush> DecodePush(Fragments message);
StatusOr<CodedPullReply> DecodePullReply(Fragments message);
StatusOr<CodedPushReply> DecodePushReply(Fragments message);

// Returns the head of a PullReply, or of a PushReply (that of its pull, if it has one). Checks
// nothing; other bytes give an empty head.
AnswerHead HeadOfPushReply(Fragments message);
AnswerHead HeadOfPullReply(Fragments message);

// Copies the content to `to` (slice.desc.bytes() bytes). DATA_LOSS: the checksum does not match;
// `to` then holds the received bytes.
Status CopyContent(Fragments message, const CodedSlice& slice, void* to);

// Returns the content's address in the message. Null: it is not contiguous, not aligned for its
// elements, or has a checksum to compare.
const void* ContentInPlace(Fragments message, const CodedSlice& slice);

}  // namespace tandem::codec
