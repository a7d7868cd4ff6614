#include "common/rpc/byte_buffer.h"

#include <memory>
#include <string>
#include <utility>

namespace tandem::rpc {
namespace {

using Keep = std::shared_ptr<const void>;

void Release(void* keep) { std::unique_ptr<Keep> owner(static_cast<Keep*>(keep)); }

}  // namespace

grpc::ByteBuffer ToByteBuffer(codec::EncodedMessage message) {
  std::vector<grpc::Slice> slices;
  slices.reserve(message.pieces.size());
  for (codec::EncodedMessage::Piece& piece : message.pieces) {
    if (piece.data == nullptr) {
      slices.emplace_back(piece.owned);
    } else {
      auto keep = std::make_unique<Keep>(std::move(piece.keep));
      slices.emplace_back(const_cast<void*>(piece.data), piece.bytes, &Release, keep.release());
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

ReceivedMessage::ReceivedMessage(const grpc::ByteBuffer& buffer) {
  if (!buffer.Valid() || !buffer.Dump(&slices_).ok()) return;
  fragments_.reserve(slices_.size());
  for (const grpc::Slice& s : slices_) {
    if (s.size() != 0)
      fragments_.emplace_back(reinterpret_cast<const std::byte*>(s.begin()), s.size());
  }
}

Status ParseMessage(codec::Fragments bytes, google::protobuf::MessageLite* message) {
  std::string whole;  // a copy, because another process may change shared memory during the read
  for (const auto& piece : bytes) {
    whole.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  if (!message->ParseFromString(whole)) {
    return InvalidArgument("the bytes are not a %s (proto/pserver.proto)", message->GetTypeName());
  }
  return OkStatus();
}

Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message) {
  return ParseMessage(ReceivedMessage(buffer).fragments(), message);
}

codec::EncodedMessage EncodedProto(const google::protobuf::MessageLite& message) {
  return {{{message.SerializeAsString(), nullptr, 0, nullptr}}};
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace tandem::rpc
