#include "trainer/serving/inference_service.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/rpc/grpc_status.h"
#include "proto/inference.grpc.pb.h"
#include "trainer/serving/infer_convert.h"

namespace tandem::trainer {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr char kHeader[] = "authorization";
// Longest time for which a request waits for a thread, whatever its deadline is.
constexpr Duration kWaitMax = std::chrono::seconds(60);

// Returns whether both texts are equal, in a time that does not depend on their content.
bool SameSecret(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

class InferenceService final : public inference::GRPCInferenceService::CallbackService {
 public:
  InferenceService(InferenceServiceOptions options, ServedModel& model, Metrics& metrics)
      : options_(std::move(options)),
        model_(model),
        requests_(metrics.GetCounter("tandem_serve_requests_total", "requests for predictions")),
        errors_(metrics.GetCounter("tandem_serve_errors_total",
                                   "requests for predictions that failed")),
        seconds_(metrics.GetHistogram(
            "tandem_serve_request_seconds",
            "time from the arrival of a request for predictions to its answer",
            {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5})) {}

  ServerUnaryReactor* ServerLive(CallbackServerContext* context,
                                 const inference::ServerLiveRequest* /*request*/,
                                 inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return Answer(context, OkStatus());
  }
  ServerUnaryReactor* ServerReady(CallbackServerContext* context,
                                  const inference::ServerReadyRequest* /*request*/,
                                  inference::ServerReadyResponse* response) override {
    response->set_ready(model_.ready());
    return Answer(context, OkStatus());
  }
  ServerUnaryReactor* ModelReady(CallbackServerContext* context,
                                 const inference::ModelReadyRequest* request,
                                 inference::ModelReadyResponse* response) override {
    const auto chosen = model_.Choose(request->version());
    response->set_ready(Named(request->name()).ok() && chosen.ok() && chosen->version->ready());
    return Answer(context, OkStatus());
  }
  ServerUnaryReactor* ServerMetadata(CallbackServerContext* context,
                                     const inference::ServerMetadataRequest* /*request*/,
                                     inference::ServerMetadataResponse* response) override {
    response->set_name("tandem");
    response->set_version(options_.version);
    return Answer(context, Admit(*context));
  }
  ServerUnaryReactor* ModelMetadata(CallbackServerContext* context,
                                    const inference::ModelMetadataRequest* request,
                                    inference::ModelMetadataResponse* response) override {
    return Answer(context, [&]() -> Status {
      TD_RETURN_IF_ERROR(Admit(*context));
      TD_RETURN_IF_ERROR(Named(request->name()));
      TD_ASSIGN_OR_RETURN(const auto chosen, model_.Choose(request->version()));
      response->set_name(model_.name());
      for (const std::string& name : model_.versions()) response->add_versions(name);
      response->set_platform("tandem");
      WriteMetadata(chosen.version->program(), response);
      return OkStatus();
    }());
  }

  ServerUnaryReactor* ModelInfer(CallbackServerContext* context,
                                 const inference::ModelInferRequest* request,
                                 inference::ModelInferResponse* response) override {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    const Time begin = SteadyNow();
    requests_.Add(1);
    const auto finish = [this, reactor, begin](const Status& status) {
      if (!status.ok()) errors_.Add(1);
      seconds_.Observe(Seconds(SteadyNow() - begin));
      reactor->Finish(rpc::ToGrpc(status));
    };
    const Status status = Infer(*context, *request, response, finish);
    if (!status.ok()) finish(status);
    return reactor;
  }

 private:
  // Starts a prediction. OK: `finish` is called later, with the response complete.
  Status Infer(CallbackServerContext& context, const inference::ModelInferRequest& request,
               inference::ModelInferResponse* response,
               const std::function<void(const Status&)>& finish) {
    TD_RETURN_IF_ERROR(Admit(context));
    TD_RETURN_IF_ERROR(Named(request.model_name()));
    TD_ASSIGN_OR_RETURN(const auto chosen, model_.Choose(request.model_version()));
    const ServingProgram& program = chosen.version->program();
    TD_ASSIGN_OR_RETURN(ReceivedRequest read, ReadRequest(request, program));
    auto received = std::make_shared<ReceivedRequest>(std::move(read));
    PredictRequest predict = std::move(received->request);
    response->set_id(request.id());
    response->set_model_name(model_.name());
    response->set_model_version(chosen.name);
    // The version calls `done` from one of its threads, so its program exists then. A reference to
    // the version itself could end it on that thread.
    const auto left = context.deadline() - std::chrono::system_clock::now();
    predict.deadline =
        SteadyNow() + std::min<Duration>(kWaitMax, std::chrono::duration_cast<Duration>(left));
    predict.cancelled = [&context] { return context.IsCancelled(); };
    predict.done = [received, response, finish, samples = predict.samples,
                    &program](const StatusOr<Prediction>& prediction) {
      if (prediction.ok()) {
        WriteResponse(*prediction, samples, received->outputs, program, response);
      }
      finish(prediction.status());
    };
    model_.Predict(chosen, std::move(predict));
    return OkStatus();
  }

  static ServerUnaryReactor* Answer(CallbackServerContext* context, const Status& status) {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(rpc::ToGrpc(status));
    return reactor;
  }

  Status Admit(const CallbackServerContext& context) const {
    if (options_.token.empty()) return OkStatus();
    const auto sent = context.client_metadata().find(kHeader);
    const std::string wanted = "Bearer " + options_.token;
    if (sent != context.client_metadata().end() &&
        SameSecret({sent->second.data(), sent->second.size()}, wanted)) {
      return OkStatus();
    }
    return Unauthenticated(
        "the metadata \"authorization\" is missing or wrong [TD7034]; hint: send \"Bearer \" and "
        "the text of the file that --token_file of the server names");
  }

  Status Named(const std::string& name) const {
    if (name == model_.name()) return OkStatus();
    return NotFound("this server has no model \"%s\", its model is \"%s\" [TD7033]", name,
                    model_.name());
  }

  const InferenceServiceOptions options_;
  ServedModel& model_;
  Counter &requests_, &errors_;
  Histogram& seconds_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeInferenceService(InferenceServiceOptions options,
                                                    ServedModel& model, Metrics& metrics) {
  return std::make_unique<InferenceService>(std::move(options), model, metrics);
}

}  // namespace tandem::trainer
