// Encodes and decodes the messages with tensors (PushRequest, PushReply and PullReply of
// proto/pserver.proto) without protobuf. The encoding is identical to that of protobuf. The sender
// does not copy tensors; the receiver copies a tensor once, to its destination. (Measured on
// loopback: a `bytes` field of protobuf costs 4 times as much for 64 MiB.) This file does not use
// gRPC; byte_buffer.h converts between the two.
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

// A message to send. Its pieces, in the order of sending, are owned bytes or references to memory.
struct EncodedMessage {
  struct Piece {
    std::string owned;           // bytes of the piece if `data` is nullptr
    const void* data = nullptr;  // memory of `bytes` bytes, referenced by the piece
    size_t bytes = 0;
    std::shared_ptr<const void> keep;  // owner of `data`; may be null
  };
  std::vector<Piece> pieces;
  size_t bytes() const;
};

// A part of a variable: the elements [offset, offset + numel) of the flattened variable.
struct CodedSlice {
  std::string variable;
  int64_t offset = 0;
  TensorDesc desc;
  // The content of the slice for sending, desc.bytes() bytes. The content must not change until the
  // message is destroyed.
  const void* data = nullptr;
  std::shared_ptr<const void> keep;
  // For receiving: the location of the content in the message, and its checksum, if it has one.
  ByteRange content;
  std::optional<uint32_t> crc32c;
};

struct CodedPush {
  PushHeader header;
  std::vector<CodedSlice> slices;
  std::string pull;  // a serialized PullRequest; empty: the push has no pull
};

// The times at which a server handled a push. See ServerTimes of proto/pserver.proto.
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
  CodedTimes times = {};  // times of the push; set only if the push has no pull
  uint64_t log_number = 0, kept_number = 0;
};

// The version and the times in a reply.
struct AnswerHead {
  uint64_t version = 0;
  bool pulled = false;  // true: version and times are those of the pull in the reply
  CodedTimes times;
};

// Tensor contents of at least this size, in bytes, are referenced. Smaller ones are copied.
inline constexpr size_t kReferenceBytesMin = 4096;

EncodedMessage EncodePush(const CodedPush& push, bool crc32c);
EncodedMessage EncodePullReply(const CodedPullReply& reply, bool crc32c);
EncodedMessage EncodePushReply(const CodedPushReply& reply, bool crc32c);

// Decode a received message. Only names and numbers are copied, no contents. INVALID_ARGUMENT: the
// bytes are no such message, or an element type, a shape or a content's length is wrong.
StatusOr<CodedPush> DecodePush(Fragments message);
StatusOr<CodedPullReply> DecodePullReply(Fragments message);
StatusOr<CodedPushReply> DecodePushReply(Fragments message);

// Return the version and the times of a PullReply or PushReply. For a PushReply with a pull they
// are those of the pull. The functions check nothing: for other bytes the result is empty.
AnswerHead HeadOfPushReply(Fragments message);
AnswerHead HeadOfPullReply(Fragments message);

// Copies the content of `slice` from the message to `to`, slice.desc.bytes() bytes. DATA_LOSS: the
// checksum does not match; `to` contains the received bytes.
Status CopyContent(Fragments message, const CodedSlice& slice, void* to);

// Returns the address of the slice's content in the message. Returns null if the content is not
// contiguous, is not aligned for its elements, or has a checksum that must be compared.
const void* ContentInPlace(Fragments message, const CodedSlice& slice);

}  // namespace tandem::codec
