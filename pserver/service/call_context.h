// A call that a server handles: its messages as bytes, and their checksums. Includes gRPC: for .cc
// files only.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>

#include "common/base/status.h"

namespace tandem::pserver {

// The context of one call, from its arrival to its reply. The holder of the reference that replies
// keeps the object. Not thread-safe: one thread at a time uses the object.
class CallContext : public std::enable_shared_from_this<CallContext> {
 public:
  // `method`: name of the RPC in the service that the caller used. gRPC owns all arguments until
  // the reply.
  CallContext(grpc::CallbackServerContext* context, const char* method,
              const grpc::ByteBuffer* request, grpc::ByteBuffer* reply)
      : context_(context), method_(method), request_(request), reply_(reply) {}
  virtual ~CallContext() = default;

  grpc::CallbackServerContext& grpc() const { return *context_; }
  // Checks the request before it has an effect. UNAVAILABLE: the request is damaged, and the caller
  // must send it again. INVALID_ARGUMENT: the bytes are not a message of the call.
  virtual Status CheckRequest() { return CompareChecksum(); }
  // Returns the status to send. Completes the bytes of the reply, and adds the checksum if the
  // request has one.
  grpc::Status Complete(const Status& status);

 protected:
  Status CompareChecksum() const;
  // Writes the bytes of the reply, unless the handler of the call wrote them.
  virtual grpc::Status Encode(grpc::ByteBuffer* /*reply*/) { return grpc::Status::OK; }

 private:
  grpc::CallbackServerContext* const context_;
  const char* const method_;
  const grpc::ByteBuffer* const request_;
  grpc::ByteBuffer* const reply_;
};

// The context of a call whose messages are protobuf messages.
template <typename Request, typename Reply>
class ProtoCallContext final : public CallContext {
 public:
  // Compares the checksum and parses the request. If that fails, the request is empty.
  ProtoCallContext(grpc::CallbackServerContext* context, const char* method,
                   const grpc::ByteBuffer* request, grpc::ByteBuffer* reply)
      : CallContext(context, method, request, reply), received_(CompareChecksum()) {
    if (!received_.ok()) return;
    // Releases the bytes after the message is parsed, as gRPC does. A large request would otherwise
    // need twice its memory. gRPC's own buffer is not const.
    auto* const bytes = const_cast<grpc::ByteBuffer*>(request);
    if (!grpc::SerializationTraits<Request>::Deserialize(bytes, &request_).ok()) {
      request_.Clear();
      received_ =
          InvalidArgument("the bytes are not a %s (proto/pserver.proto)", request_.GetTypeName());
    }
  }
  Status CheckRequest() override { return received_; }
  const Request& message() const { return request_; }
  Reply* reply() { return &reply_; }

 private:
  grpc::Status Encode(grpc::ByteBuffer* reply) override {
    bool owned = false;
    return grpc::SerializationTraits<Reply>::Serialize(reply_, reply, &owned);
  }

  Request request_;
  Reply reply_;
  Status received_;
};

}  // namespace tandem::pserver
