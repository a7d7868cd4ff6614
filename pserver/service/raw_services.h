// The gRPC services of a pserver. They receive the messages of all calls as bytes and pass the
// calls to PserverHandlers. Both services have the same messages. Includes gRPC: for .cc files
// only.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace tandem::pserver {

class PserverHandlers;

// Makes the service tandem.ParameterServer (proto/pserver.proto). `handlers` must outlive it.
std::unique_ptr<grpc::Service> MakeUnversionedService(PserverHandlers& handlers);

// Makes the service tandem.pserver.v1.ParameterServer (proto/pserver_v1.proto): the same calls with
// versioned names. `handlers` must outlive it.
std::unique_ptr<grpc::Service> MakeServiceV1(PserverHandlers& handlers);

}  // namespace tandem::pserver
