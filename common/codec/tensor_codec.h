// The messages that carry tensors (PushRequest, PushReply and PullReply of proto/pserver.proto),
// written and read by hand: the bytes are those of protobuf, but tensors are referenced when
// sending and copied once, to where they belong, when receiving. (Measured on loopback: protobuf's
// `bytes` field costs 4 times as much for 64 MiB.) No gRPC in here: byte_buffer.h joins the two.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/codec/wire.h"
#include "common/tensor/types.h"

namespace tandem {

// A message to send: pieces of owned bytes and of referenced memory, in order.
struct EncodedMessage {
  struct Piece {
    std::string owned;           // used when data is nullptr
    const void* data = nullptr;  // referenced, `bytes` long
    size_t bytes = 0;
    std::shared_ptr<const void> keep;  // what keeps `data` alive; may be null
  };
  std::vector<Piece> pieces;
  size_t bytes() const;
};

// A tensor that belongs to elements [offset, offset + numel) of a flattened variable.
struct CodedSlice {
  std::string variable;
  int64_t offset = 0;
  TensorDesc desc;
  // Sending: desc.bytes() bytes that do not change until the message is gone.
  const void* data = nullptr;
  std::shared_ptr<const void> keep;
  // Receiving: where they are in the message, and their checksum if it came along.
  ByteRange content;
  std::optional<uint32_t> crc32c;
};

struct CodedPush {
  std::string job;
  uint32_t trainer_id = 0;
  uint64_t incarnation = 0, sequence = 0, step = 0;
  float learning_rate = 0;
  std::vector<CodedSlice> slices;
  std::string pull;  // a PullRequest as bytes; empty: none
  uint64_t generation = 0;
  uint32_t origin_server = 0;
  uint64_t origin_sequence = 0;
  std::vector<uint64_t> sent = {}, ended = {};  // by server
  bool finite = false;
};

// ServerTimes of proto/pserver.proto.
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
  CodedTimes times = {};  // of a push alone
  uint64_t log_number = 0, kept_number = 0;
};

// What an answer tells beside its tensors: version and times.
struct AnswerHead {
  uint64_t version = 0;
  bool pulled = false;  // it is that of a pull
  CodedTimes times;
};

// Contents from this size on are referenced, smaller ones copied into the message.
inline constexpr size_t kReferenceBytesMin = 4096;

EncodedMessage EncodePush(const CodedPush& push, bool crc32c);
EncodedMessage EncodePullReply(const CodedPullReply& reply, bool crc32c);
EncodedMessage EncodePushReply(const CodedPushReply& reply, bool crc32c);

// INVALID_ARGUMENT for bytes that are not such a message, unknown element types, bad shapes, and
// contents that are not as long as the shape says. Nothing is copied but names and numbers.
StatusOr<CodedPush> DecodePush(Fragments message);
StatusOr<CodedPullReply> DecodePullReply(Fragments message);
StatusOr<CodedPushReply> DecodePushReply(Fragments message);

// The head of a PushReply (that of the pull in it, where there is one) or a PullReply; nothing is
// checked, and of other bytes it is empty.
AnswerHead HeadOfPushReply(Fragments message);
AnswerHead HeadOfPullReply(Fragments message);

// Copies the content to `to` (slice.desc.bytes() bytes). DATA_LOSS when the checksum does not
// match; `to` then holds what came.
Status CopyContent(Fragments message, const CodedSlice& slice, void* to);

// Where the content lies in the message; null unless it is in one piece, aligned for its elements,
// and without a checksum to compare.
const void* ContentInPlace(Fragments message, const CodedSlice& slice);

}  // namespace tandem
