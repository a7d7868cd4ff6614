#include "pserver/service/raw_services.h"

#include <grpcpp/support/server_callback.h>

#include "proto/pserver.grpc.pb.h"
#include "proto/pserver_v1.grpc.pb.h"
#include "pserver/service/service_handlers.h"

namespace tandem::pserver {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// The service `Service` with the class templates `With` of its generated code around it.
template <typename Service, template <typename> class... With>
struct Wrapped {
  using Type = Service;
};
template <typename Service, template <typename> class First, template <typename> class... Rest>
struct Wrapped<Service, First, Rest...> {
  using Type = First<typename Wrapped<Service, Rest...>::Type>;
};

// Handles a call whose messages are protobuf messages. The context owns both messages.
template <typename Request, typename Reply>
ServerUnaryReactor* HandleProto(PserverHandlers& handlers,
                                ServerUnaryReactor* (PserverHandlers::*handler)(CallContext*,
                                                                                const Request*,
                                                                                Reply*),
                                CallbackServerContext* context, const char* method,
                                const ByteBuffer* request, ByteBuffer* reply) {
  const auto call =
      std::make_shared<ProtoCallContext<Request, Reply>>(context, method, request, reply);
  return (handlers.*handler)(call.get(), &call->message(), call->reply());
}

// Handles a Push or a Pull, whose handler reads and writes the bytes.
ServerUnaryReactor* HandleBytes(PserverHandlers& handlers,
                                ServerUnaryReactor* (PserverHandlers::*handler)(CallContext*,
                                                                                const ByteBuffer*,
                                                                                ByteBuffer*),
                                CallbackServerContext* context, const char* method,
                                const ByteBuffer* request, ByteBuffer* reply) {
  const auto call = std::make_shared<CallContext>(context, method, request, reply);
  return (handlers.*handler)(call.get(), request, reply);
}

#define TD_WITH(call, v1_name, Request, Reply) , ParameterServer::WithRawCallbackMethod_##call
using UnversionedBase = Wrapped<ParameterServer::Service TD_PROTO_CALLS(TD_WITH),
                                ParameterServer::WithRawCallbackMethod_Push,
                                ParameterServer::WithRawCallbackMethod_Pull>::Type;
#undef TD_WITH

using V1 = v1::ParameterServer;
#define TD_WITH(call, v1_name, Request, Reply) , V1::WithRawCallbackMethod_##v1_name
using V1Base = Wrapped<V1::Service TD_PROTO_CALLS(TD_WITH), V1::WithRawCallbackMethod_Push,
                       V1::WithRawCallbackMethod_Pull>::Type;
#undef TD_WITH

// Defines the call `name` of a service. `call`: the method of PserverHandlers that handles it.
#define TD_FORWARD(call, name, handle)                                                \
  ServerUnaryReactor* name(CallbackServerContext* context, const ByteBuffer* request, \
                           ByteBuffer* reply) override {                              \
    return handle(handlers_, &PserverHandlers::call, context, #name, request, reply); \
  }

// The service tandem.ParameterServer.
class UnversionedService final : public UnversionedBase {
 public:
  explicit UnversionedService(PserverHandlers& handlers) : handlers_(handlers) {}
#define TD_FORWARD_PROTO(call, v1_name, Request, Reply) TD_FORWARD(call, call, HandleProto)
  TD_PROTO_CALLS(TD_FORWARD_PROTO)
#undef TD_FORWARD_PROTO
  TD_FORWARD(Push, Push, HandleBytes)
  TD_FORWARD(Pull, Pull, HandleBytes)

 private:
  PserverHandlers& handlers_;
};

// The service tandem.pserver.v1.ParameterServer.
class ServiceV1 final : public V1Base {
 public:
  explicit ServiceV1(PserverHandlers& handlers) : handlers_(handlers) {}
#define TD_FORWARD_PROTO(call, v1_name, Request, Reply) TD_FORWARD(call, v1_name, HandleProto)
  TD_PROTO_CALLS(TD_FORWARD_PROTO)
#undef TD_FORWARD_PROTO
  TD_FORWARD(Push, Push, HandleBytes)
  TD_FORWARD(Pull, Pull, HandleBytes)

 private:
  PserverHandlers& handlers_;
};
#undef TD_FORWARD

}  // namespace

std::unique_ptr<grpc::Service> MakeUnversionedService(PserverHandlers& handlers) {
  return std::make_unique<UnversionedService>(handlers);
}

std::unique_ptr<grpc::Service> MakeServiceV1(PserverHandlers& handlers) {
  return std::make_unique<ServiceV1>(handlers);
}

}  // namespace tandem::pserver
