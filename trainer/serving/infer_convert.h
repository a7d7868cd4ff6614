// Converts messages of the Open Inference Protocol (proto/inference.proto) to requests and back.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "trainer/serving/predictor.h"
#include "trainer/serving/serving_program.h"

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
class ModelMetadataResponse;
}  // namespace inference

namespace tandem::trainer {

// The inputs of one request. `request.inputs` refers to the memory of the message and of `owned`.
struct ReceivedRequest {
  PredictRequest request;
  std::vector<std::vector<std::byte>> owned;  // inputs that the message has as `contents`
  std::vector<size_t> outputs;                // the wanted outputs, as indices of the model's
};

// Reads a request for `model`. The message must outlive the result. INVALID_ARGUMENT: the message
// does not fit the model; the message of the error names the input or output.
StatusOr<ReceivedRequest> ReadRequest(const inference::ModelInferRequest& message,
                                      const ServingProgram& model);

// Writes a prediction of `samples` samples with the outputs `outputs`.
void WriteResponse(const Prediction& prediction, int64_t samples,
                   const std::vector<size_t>& outputs, const ServingProgram& model,
                   inference::ModelInferResponse* message);

// Writes the inputs and outputs of `model`.
void WriteMetadata(const ServingProgram& model, inference::ModelMetadataResponse* message);

}  // namespace tandem::trainer
