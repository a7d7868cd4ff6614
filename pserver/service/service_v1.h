// The service tandem.pserver.v1.ParameterServer (proto/pserver_v1.proto): the calls of
// tandem.ParameterServer with versioned names. Includes gRPC: for .cc files only.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace tandem::pserver {

class PserverHandlers;

// Returns a service that passes each call to `handlers`, which must outlive the service. The
// messages have the same bytes as in the unversioned service.
std::unique_ptr<grpc::Service> MakePserverServiceV1(PserverHandlers& handlers);

}  // namespace tandem::pserver
