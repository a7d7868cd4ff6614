// Conversions between grpc::ByteBuffer and the messages of tensor_codec.h, and small protobuf
// messages. Includes gRPC, so include it in .cc files only.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/tensor_codec.h"

namespace tandem::rpc {

// Converts a message to a gRPC buffer that references the message's memory. The buffer holds each
// `keep` of the message until gRPC has sent or dropped the bytes.
grpc::ByteBuffer ToByteBuffer(codec::EncodedMessage message);

// A received gRPC buffer as a list of fragments. It holds a reference to the buffer's memory.
class ReceivedMessage {
 public:
  explicit ReceivedMessage(const grpc::ByteBuffer& buffer);
  codec::Fragments fragments() const { return fragments_; }

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> fragments_;
};

// Parse a small protobuf message. INVALID_ARGUMENT: the bytes are not a message of this type.
Status ParseMessage(codec::Fragments bytes, google::protobuf::MessageLite* message);
Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message);
grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message);
codec::EncodedMessage EncodedProto(const google::protobuf::MessageLite& message);

}  // namespace tandem::rpc
