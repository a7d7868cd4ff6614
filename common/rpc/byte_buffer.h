// grpc::ByteBuffer at both ends of tensor_codec.h and of small protobuf messages. Includes gRPC:
// for .cc files only.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/tensor_codec.h"

namespace tandem::rpc {

// References the message's memory; each `keep` is held until gRPC has sent or dropped the bytes.
grpc::ByteBuffer ToByteBuffer(codec::EncodedMessage message);

// A received buffer as fragments; holds on to its memory.
class ReceivedMessage {
 public:
  explicit ReceivedMessage(const grpc::ByteBuffer& buffer);
  codec::Fragments fragments() const { return fragments_; }

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> fragments_;
};

// For small messages. INVALID_ARGUMENT when the bytes are not such a message.
Status ParseMessage(codec::Fragments bytes, google::protobuf::MessageLite* message);
Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message);
grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message);
codec::EncodedMessage EncodedProto(const google::protobuf::MessageLite& message);

}  // namespace tandem::rpc
