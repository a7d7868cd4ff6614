#include "trainer/serving/infer_convert.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "proto/inference.pb.h"

namespace tandem::trainer {
namespace {

using Input = inference::ModelInferRequest::InferInputTensor;

// Names of element types in the protocol.
const char* DatatypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "FP32";
    case DType::kF16:
      return "FP16";
    case DType::kBF16:
      return "BF16";
    case DType::kI32:
      return "INT32";
    case DType::kI64:
      return "INT64";
    case DType::kU8:
      return "UINT8";
  }
  return "";
}

std::vector<std::string> NamesOf(const std::vector<ServedTensor>& tensors) {
  std::vector<std::string> names;
  for (const ServedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

// Returns the index of the tensor `name`. `kind`: "input" or "output".
StatusOr<size_t> Find(const std::vector<ServedTensor>& tensors, const std::string& name,
                      const char* kind) {
  const auto found = std::ranges::find(tensors, name, &ServedTensor::name);
  if (found != tensors.end()) return static_cast<size_t>(found - tensors.begin());
  const std::vector<std::string> names = NamesOf(tensors);
  return InvalidArgument("the model has no %s \"%s\", its %ss are: %s [TD7031]%s", kind, name, kind,
                         absl::StrJoin(names, ", "), OrDidYouMean(name, names));
}

// Checks type and shape. Returns the number of samples.
StatusOr<int64_t> SamplesOf(const Input& input, const ServedTensor& served) {
  const auto& shape = input.shape();
  const auto wanted = served.sample.shape.dims();
  const bool fits = input.datatype() == DatatypeOf(served.sample.dtype) &&
                    shape.size() == std::ssize(wanted) + 1 &&
                    std::equal(wanted.begin(), wanted.end(), shape.begin() + 1) && shape[0] > 0;
  if (fits) return shape[0];
  return InvalidArgument("input \"%s\" is %s [%s], expected %s [samples%s%s] [TD7031]",
                         input.name(), input.datatype(), absl::StrJoin(shape, ","),
                         DatatypeOf(served.sample.dtype), wanted.empty() ? "" : ",",
                         absl::StrJoin(wanted, ","));
}

template <typename T, typename Values>
std::vector<std::byte> BytesOf(const Values& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(values.size()) * sizeof(T));
  std::byte* to = bytes.data();
  for (const auto value : values) {
    const T element = static_cast<T>(value);
    std::memcpy(to, &element, sizeof(T));
    to += sizeof(T);
  }
  return bytes;
}

// Returns the elements of an input that has `contents`.
StatusOr<std::vector<std::byte>> ContentsOf(const Input& input, DType dtype) {
  const inference::InferTensorContents& contents = input.contents();
  switch (dtype) {
    case DType::kF32:
      return BytesOf<float>(contents.fp32_contents());
    case DType::kI64:
      return BytesOf<int64_t>(contents.int64_contents());
    case DType::kI32:
      return BytesOf<int32_t>(contents.int_contents());
    case DType::kU8:
      if (std::ranges::any_of(contents.uint_contents(), [](uint32_t v) { return v > UINT8_MAX; })) {
        return InvalidArgument("input \"%s\" of type UINT8 has an element above 255 [TD7031]",
                               input.name());
      }
      return BytesOf<uint8_t>(contents.uint_contents());
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  return InvalidArgument("input \"%s\" of type %s must be in raw_input_contents [TD7031]",
                         input.name(), input.datatype());
}

// Checks the numbers and names of inputs and outputs.
Status CheckNames(const inference::ModelInferRequest& message, const ServingProgram& model) {
  if (static_cast<size_t>(message.inputs_size()) > model.inputs.size() ||
      static_cast<size_t>(message.outputs_size()) > model.outputs.size()) {
    return InvalidArgument(
        "the request names %d inputs and %d outputs, but the model has inputs %s and outputs %s "
        "[TD7031]",
        message.inputs_size(), message.outputs_size(), absl::StrJoin(NamesOf(model.inputs), ", "),
        absl::StrJoin(NamesOf(model.outputs), ", "));
  }
  for (const ServedTensor& served : model.inputs) {
    const auto n = std::ranges::count_if(
        message.inputs(), [&](const Input& input) { return input.name() == served.name; });
    if (n == 1) continue;
    return InvalidArgument("the request has input \"%s\" %d times, expected once [TD7031]",
                           served.name, n);
  }
  if (message.raw_input_contents_size() != 0 &&
      message.raw_input_contents_size() != message.inputs_size()) {
    return InvalidArgument(
        "the request has %d inputs but %d raw_input_contents, expected equal numbers [TD7031]",
        message.inputs_size(), message.raw_input_contents_size());
  }
  return OkStatus();
}

}  // namespace

StatusOr<ReceivedRequest> ReadRequest(const inference::ModelInferRequest& message,
                                      const ServingProgram& model) {
  TD_RETURN_IF_ERROR(CheckNames(message, model));
  ReceivedRequest received;
  PredictRequest& request = received.request;
  request.inputs.resize(model.inputs.size());
  received.owned.reserve(model.inputs.size());  // spans refer to its elements
  for (int i = 0; i < message.inputs_size(); ++i) {
    const Input& input = message.inputs(i);
    TD_ASSIGN_OR_RETURN(const size_t at, Find(model.inputs, input.name(), "input"));
    TD_ASSIGN_OR_RETURN(const int64_t samples, SamplesOf(input, model.inputs[at]));
    if (request.samples != 0 && samples != request.samples) {
      return InvalidArgument("input \"%s\" has %d samples, but an input before it has %d [TD7031]",
                             input.name(), samples, request.samples);
    }
    request.samples = samples;
    if (message.raw_input_contents_size() != 0) {
      if (input.has_contents()) {
        return InvalidArgument(
            "input \"%s\" has contents, but the elements are in raw_input_contents [TD7031]",
            input.name());
      }
      request.inputs[at] = std::as_bytes(std::span(message.raw_input_contents(i)));
    } else {
      TD_ASSIGN_OR_RETURN(received.owned.emplace_back(),
                          ContentsOf(input, model.inputs[at].sample.dtype));
      request.inputs[at] = received.owned.back();
    }
  }
  for (const auto& output : message.outputs()) {
    TD_ASSIGN_OR_RETURN(received.outputs.emplace_back(),
                        Find(model.outputs, output.name(), "output"));
  }
  for (size_t i = 0; message.outputs_size() == 0 && i < model.outputs.size(); ++i) {
    received.outputs.push_back(i);
  }
  return received;
}

void WriteResponse(const Prediction& prediction, int64_t samples,
                   const std::vector<size_t>& outputs, const ServingProgram& model,
                   inference::ModelInferResponse* message) {
  TD_REQUIRE(prediction.outputs.size() == model.outputs.size());
  (*message->mutable_parameters())["values"].set_string_param(prediction.version);
  for (const size_t at : outputs) {
    const ServedTensor& served = model.outputs[at];
    auto* const output = message->add_outputs();
    output->set_name(served.name);
    output->set_datatype(DatatypeOf(served.sample.dtype));
    output->add_shape(samples);
    for (const int64_t size : served.sample.shape.dims()) output->add_shape(size);
    const std::vector<std::byte>& bytes = prediction.outputs[at];
    message->add_raw_output_contents(bytes.data(), bytes.size());
  }
}

void WriteMetadata(const ServingProgram& model, inference::ModelMetadataResponse* message) {
  const auto write = [](const ServedTensor& served, auto* to) {
    to->set_name(served.name);
    to->set_datatype(DatatypeOf(served.sample.dtype));
    to->add_shape(-1);
    for (const int64_t size : served.sample.shape.dims()) to->add_shape(size);
  };
  for (const ServedTensor& input : model.inputs) write(input, message->add_inputs());
  for (const ServedTensor& output : model.outputs) write(output, message->add_outputs());
}

}  // namespace tandem::trainer
