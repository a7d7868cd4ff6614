// predict_deepfm: predictions of the zoo's DeepFM with 26 columns and a million ids, from a model
// in this process, by four ways: calls of the model (ModelVersion), the gRPC service over loopback,
// and both with the rows of the tables on a pserver of this machine. For each way and number of
// samples in a request: requests per second and latency. --export_dir receives model.onnx for the
// peer (peer_onnx.py). --threads: threads of the model, and as many callers.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <latch>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/server.h"
#include "kernels/exec/scope.h"
#include "proto/inference.grpc.pb.h"
#include "tests/bench/ps_pair.h"
#include "tests/bench/report.h"
#include "trainer/models/models.h"
#include "trainer/onnx/export/export.h"
#include "trainer/serving/inference_service.h"
#include "trainer/serving/served_model.h"
#include "trainer/serving/server_source.h"

namespace tandem::bench {
namespace {

using trainer::DenseValues;
using trainer::ModelSpec;
using trainer::ServedModel;

constexpr int64_t kFields = 26, kIds = 1'000'000, kDim = 16;
constexpr int64_t kSizes[] = {1, 16, 64};  // samples of a request
constexpr size_t kRequests = 256;          // different requests
constexpr uint64_t kSeed = 1;
constexpr int64_t kPushedRows = 10'000;  // rows of a push that creates rows

// `distributed`: only pservers store the tables.
StatusOr<graph::Program> DeepFm(bool distributed) {
  return trainer::BuildModel("deepfm",
                             {{"fields", std::to_string(kFields)},
                              {"rows", std::to_string(kIds)},
                              {"dim", std::to_string(kDim)},
                              {"hidden", "400,400"},
                              {"sparse", "1"},
                              {"distributed", distributed ? "1" : "0"}},
                             1);
}

// Values in this process: the initial ones of the program.
class InitialSource final : public trainer::ModelSource {
 public:
  static StatusOr<std::unique_ptr<InitialSource>> Make(const graph::Program& program) {
    auto source = std::make_unique<InitialSource>();
    TD_RETURN_IF_ERROR(exec::Initialize(program, kSeed, source->scope_));
    auto dense = std::make_shared<DenseValues>();
    dense->version = "initial";
    for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
      dense->tensors[var->name] = *source->scope_.Find(var->name);
    }
    source->dense_ = std::move(dense);
    return source;
  }
  StatusOr<std::shared_ptr<const DenseValues>> Dense() override { return dense_; }
  Status ReadRows(const trainer::ServedTable& table, std::span<const int64_t>,
                  std::span<float* const>) override {
    return NotFound("%s is dense", table.name);
  }
  bool fixed() const override { return true; }

 private:
  CpuDevice host_;
  exec::Scope scope_{host_};
  std::shared_ptr<const DenseValues> dense_;
};

using Requests = std::vector<std::vector<int64_t>>;  // ids of each request

Requests Draw(int64_t samples) {
  std::mt19937_64 random(7);
  Requests requests(kRequests);
  for (auto& ids : requests) {
    ids.resize(static_cast<size_t>(samples * kFields));
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % kIds);
  }
  return requests;
}

// Sends one request and waits for its answer.
using Send = std::function<Status(const std::vector<int64_t>& ids, int64_t samples)>;

// Adds requests per second and latencies in microseconds of `callers` threads that each send one
// request after another.
Status Measure(const std::string& name, int callers, double seconds, const Send& send,
               Report* report) {
  for (const int64_t samples : kSizes) {
    const Requests requests = Draw(samples);
    std::vector<std::vector<double>> took(static_cast<size_t>(callers));
    std::vector<Status> ends(static_cast<size_t>(callers));
    std::latch warm(callers);
    std::vector<std::thread> threads;
    for (size_t c = 0; c < took.size(); ++c) {
      threads.emplace_back([&, c] {
        for (size_t i = 0; i < 50 && ends[c].ok(); ++i) {
          ends[c] = send(requests[(i + 17 * c) % kRequests], samples);
        }
        warm.arrive_and_wait();
        const Time end = SteadyNow() + std::chrono::duration_cast<Duration>(
                                           std::chrono::duration<double>(seconds));
        for (size_t i = 17 * c; ends[c].ok() && SteadyNow() < end; ++i) {
          const Time begin = SteadyNow();
          ends[c] = send(requests[i % kRequests], samples);
          took[c].push_back(Seconds(SteadyNow() - begin));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<double> all;
    for (const auto& some : took) all.insert(all.end(), some.begin(), some.end());
    for (const Status& end : ends) TD_RETURN_IF_ERROR(end);
    std::ranges::sort(all);
    const std::string prefix = absl::StrFormat("%s_%d_", name, samples);
    report->Add(prefix + "requests_per_s", static_cast<double>(all.size()) / seconds);
    report->Add(prefix + "p50_us", 1e6 * all[all.size() / 2]);
    report->Add(prefix + "p99_us", 1e6 * all[all.size() * 99 / 100]);
  }
  return OkStatus();
}

// Measures calls of the model, and calls over gRPC.
Status MeasureModel(const std::string& name, const RunOptions& options, ServedModel& model,
                    Metrics& metrics, Report* report) {
  const auto call = [&model](const std::vector<int64_t>& ids, int64_t samples) -> Status {
    exec::CommDone done;
    trainer::PredictRequest request;
    request.samples = samples;
    request.inputs = {std::as_bytes(std::span(ids))};
    request.done = [&done](const StatusOr<trainer::Prediction>& answer) {
      done.Complete(answer.status());
    };
    TD_ASSIGN_OR_RETURN(const auto chosen, model.Choose(""));
    model.Predict(chosen, std::move(request));
    return done.Wait(SteadyNow() + std::chrono::seconds(60));
  };
  TD_RETURN_IF_ERROR(Measure(name + "_call", options.threads, options.seconds, call, report));
  const auto service = trainer::MakeInferenceService({}, model, metrics);
  TD_ASSIGN_OR_RETURN(const auto server, rpc::RpcServer::Start({}, {service.get()}));
  TD_ASSIGN_OR_RETURN(const auto channel, rpc::MakeChannel(server->endpoint(), rpc::TlsFiles()));
  const auto stub = inference::GRPCInferenceService::NewStub(channel);
  const auto ask = [&](const std::vector<int64_t>& ids, int64_t samples) -> Status {
    inference::ModelInferRequest request;
    request.set_model_name(model.name());
    auto* const input = request.add_inputs();
    input->set_name("ids");
    input->set_datatype("INT64");
    input->add_shape(samples);
    input->add_shape(kFields);
    request.add_raw_input_contents(ids.data(), ids.size() * sizeof(int64_t));
    inference::ModelInferResponse response;
    grpc::ClientContext context;
    TD_RETURN_IF_ERROR(rpc::PrepareCall(SteadyNow() + std::chrono::seconds(60), &context));
    return rpc::FromGrpc(stub->ModelInfer(&context, request, &response));
  };
  return Measure(name + "_grpc", options.threads, options.seconds, ask, report);
}

StatusOr<std::unique_ptr<ServedModel>> Serve(const RunOptions& options, bool distributed,
                                             std::unique_ptr<trainer::ModelSource> source,
                                             Metrics& metrics) {
  ModelSpec spec;
  spec.name = "deepfm";
  TD_ASSIGN_OR_RETURN(spec.forward, DeepFm(distributed));
  spec.options.threads = options.threads;
  return ServedModel::Start(std::move(spec), std::move(source), metrics);
}

// Starts a pserver in this process with the values of `program`: one table whose rows all exist,
// and the dense variables.
Status StartServer(const graph::Program& program, PsPair* pair) {
  TD_RETURN_IF_ERROR(pair->Start({}, {}));
  CpuDevice host;
  exec::Scope scope(host);
  std::vector<ps::PsVariable> variables;
  std::vector<ps::PsTensor> values;
  std::vector<ps::PsTable> tables;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
    if (var->desc.shape[0] == kIds) {
      tables.push_back({.variable = var->name, .height = kIds, .dim = var->desc.shape[1]});
      continue;
    }
    TD_ASSIGN_OR_RETURN(const Tensor tensor, scope.Declare(var->name, var->desc));
    exec::FillInitial(var->name, var->init, var->desc.shape, kSeed, 0, tensor.span<float>());
    variables.push_back({var->name, var->desc.shape});
    values.push_back({var->name, tensor.span<float>().data(), tensor.numel()});
  }
  TD_REQUIRE(tables.size() == 1);
  TD_RETURN_IF_ERROR(
      pair->client->Configure(variables, ps::PsMode::kASync, {"sgd", {}}, tables).status());
  TD_RETURN_IF_ERROR(pair->client->InitOrFetch(values).status());
  std::vector<int64_t> ids(kPushedRows);
  const std::vector<float> ones(static_cast<size_t>(kPushedRows * tables[0].dim), 1.0f);
  std::map<std::string, std::vector<float>> zeros;
  for (int64_t step = 0; step * kPushedRows < kIds; ++step) {
    std::iota(ids.begin(), ids.end(), step * kPushedRows);
    std::vector<ps::PsConstTensor> gradients;
    for (const ps::PsTensor& value : values) {
      const auto of = zeros.try_emplace(value.variable, static_cast<size_t>(value.numel)).first;
      gradients.push_back({value.variable, of->second.data(), value.numel});
    }
    exec::CommDone done;
    pair->client->Push(static_cast<uint64_t>(step), 0.01f, gradients,
                       [&done](const Status& status) { done.Complete(status); },
                       {{tables[0].variable, ids, ones.data()}});
    TD_RETURN_IF_ERROR(done.Wait(SteadyNow() + std::chrono::seconds(60)));
  }
  return OkStatus();
}

// Writes the model with the values of `source` for the peer.
Status Export(const graph::Program& program, const DenseValues& values, const std::string& dir) {
  TD_ASSIGN_OR_RETURN(const onnx::ExportedModel model,
                      onnx::ExportModel(program, values.tensors, {}, {}));
  return WriteTextFile(dir + "/model.onnx", model.bytes);
}

}  // namespace

StatusOr<Report> PredictDeepFm(const RunOptions& options) {
  Report report;
  Metrics metrics;
  {
    TD_ASSIGN_OR_RETURN(const graph::Program program, DeepFm(false));
    TD_ASSIGN_OR_RETURN(auto source, InitialSource::Make(program));
    if (!options.export_dir.empty()) {
      TD_ASSIGN_OR_RETURN(const auto dense, source->Dense());
      TD_RETURN_IF_ERROR(Export(program, *dense, options.export_dir));
    }
    TD_ASSIGN_OR_RETURN(const auto model, Serve(options, false, std::move(source), metrics));
    TD_RETURN_IF_ERROR(MeasureModel("local", options, *model, metrics, &report));
  }
  PsPair pair;
  TD_ASSIGN_OR_RETURN(const graph::Program program, DeepFm(true));
  TD_RETURN_IF_ERROR(StartServer(program, &pair));
  TD_ASSIGN_OR_RETURN(auto source,
                      trainer::ServerSource::Connect({ToString(pair.server->endpoint())}, {}));
  TD_ASSIGN_OR_RETURN(const auto model, Serve(options, true, std::move(source), metrics));
  TD_RETURN_IF_ERROR(MeasureModel("pserver", options, *model, metrics, &report));
  return report;
}

}  // namespace tandem::bench
