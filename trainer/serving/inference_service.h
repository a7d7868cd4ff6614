// The gRPC service of the Open Inference Protocol, version 2 (proto/inference.proto). Includes
// gRPC: for .cc files only.
#pragma once

#include <memory>
#include <string>

#include "common/base/metrics.h"
#include "trainer/serving/served_model.h"

namespace grpc {
class Service;
}

namespace tandem::trainer {

struct InferenceServiceOptions {
  // Callers must send the metadata "authorization: Bearer TOKEN". "": callers need no token.
  std::string token;
  std::string version;  // version of Tandem, for ServerMetadata
};

// Makes the service. `model` and `metrics` must outlive the service, and the service its gRPC
// server. Liveness and readiness need no token.
std::unique_ptr<grpc::Service> MakeInferenceService(InferenceServiceOptions options,
                                                    ServedModel& model, Metrics& metrics);

}  // namespace tandem::trainer
