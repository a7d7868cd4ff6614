// Encodes and decodes the messages with tensors (PushRequest, PushReply and PullReply of
// proto/pserver.proto) without protobuf. The encoding is identical to that of protobuf. The sender
// does not copy tensors; the receiver copies a tensor once, to its destination. (Measured on
// loopback: a `bytes` field of protobuf costs 4 times as much for 64 MiB.) This file does not use
// gRPC; common/rpc/byte_buffer.h converts between encoded messages and gRPC buffers.
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
    std::string owned;           // bytes of the piece; used if `data` is nullptr
    const void* data = nullptr;  // `bytes` bytes of referenced memory
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
  // The content of the slice, desc.bytes() bytes; for sending only. The content must not change
  // until the encoded message is destroyed.
  const void* data = nullptr;
  std::shared_ptr<const void> keep;
  // The location of the content in a received message, and the checksum of the content if the
  // message has one; for receiving only.
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

// The version and the times that a reply contains.
struct AnswerHead {
  uint64_t version = 0;
  bool pulled = false;  // true: `version` and `times` are those of the pull in the reply
  CodedTimes times;
};

// Minimum size in bytes of a tensor content that an encoded message references. A smaller content
// is copied.
inline constexpr size_t kReferenceBytesMin = 4096;

EncodedMessage EncodePush(const CodedPush& push);
// `crc32c`: the slices have checksums of their contents, which earlier clients request.
EncodedMessage EncodePullReply(const CodedPullReply& reply, bool crc32c);
EncodedMessage EncodePushReply(const CodedPushReply& reply, bool crc32c);

// Decode a received message. The functions copy names and numbers, but no tensor contents.
// INVALID_ARGUMENT: the bytes are not a message of this type, or an element type, a shape or the
// length of a content is wrong.
StatusOr<CodedPush> DecodePush(Fragments message);
StatusOr<CodedPullReply> DecodePullReply(Fragments message);
StatusOr<CodedPushReply> DecodePushReply(Fragments message);

// Return the version and the times of a PushReply or a PullReply. For a PushReply that contains a
// pull, the version and the times are those of the pull. The result is empty if the bytes cannot be
// decoded.
AnswerHead HeadOfPushReply(Fragments message);
AnswerHead HeadOfPullReply(Fragments message);

// Copies the content of `slice`, slice.desc.bytes() bytes, from the message to `to`. DATA_LOSS: the
// checksum does not match; `to` contains the received bytes.
Status CopyContent(Fragments message, const CodedSlice& slice, void* to);

// Returns the address of the slice's content in the message, for use without a copy. Returns null
// if the content is not contiguous, is not aligned for its elements, or is empty. Also returns null
// if the message has a checksum of the content, because only CopyContent compares the checksum.
const void* ContentInPlace(Fragments message, const CodedSlice& slice);

}  // namespace tandem::codec
