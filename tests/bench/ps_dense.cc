// ps_dense_fast, ps_dense_tcp, ps_pull_fast: pushes and pulls of 64 MB of parameters on one
// pserver, in variables of 1 MB. A push sends one variable, up to eight pushes are in progress, and
// the server applies SGD. A pull returns all variables. Each benchmark has a peer. The peer of
// ps_dense_fast is a bare ring in shared memory whose reader runs the same SGD loop. The peer of
// ps_dense_tcp is a plain gRPC service with the gradient in a protobuf field and the same SGD loop.
// The peer of ps_pull_fast is a memcpy of the same number of bytes.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/base/clock.h"
#include "common/rpc/grpc_status.h"
#include "common/shm/sealed_memory.h"
#include "common/shm_rpc/ring.h"
#include "kernels/ops/cpu/update_loops.h"
#include "proto/pserver.grpc.pb.h"
#include "tests/bench/dense_ps.h"
#include "tests/bench/processor_time.h"
#include "tests/bench/report.h"
#include "tests/support/tls_test_util.h"

namespace tandem::bench {
namespace {

ps::PsOptions Over(ps::PsTransport transport) {
  ps::PsOptions options;
  options.transport = transport;
  return options;
}

void Sgd(float* param, const float* gradient) {
  ops::BestUpdateLoops().sgd(
      {.lr = kRate}, {.p = param, .g = gradient, .s = {}, .po = param, .so = {}, .n = kNumel});
}

// A ring of slots in shared memory. One thread copies gradients into the slots, another one applies
// them. The ring checks nothing, and its threads never sleep.
class BareRing {
 public:
  Status Start() {
    TD_ASSIGN_OR_RETURN(
        memory_, SealedMemory::Create("bench", kUnderWay * kBytes, SealedMemory::Others::kWrite));
    reader_ = std::thread([this] {
      for (uint64_t i = 0;; ++i) {
        while (written_.load(std::memory_order_acquire) <= i) {
          if (stop_) return;
          ::sched_yield();
        }
        Sgd(params_.data() + i % kVariables * kNumel, Slot(i));
        read_.store(i + 1, std::memory_order_release);
      }
    });
    return OkStatus();
  }
  ~BareRing() {
    stop_ = true;
    if (reader_.joinable()) reader_.join();
  }
  Status PushAll(const Values& gradients) {
    uint64_t at = written_.load();
    for (int v = 0; v < kVariables; ++v, ++at) {
      while (at - read_.load(std::memory_order_acquire) >= kUnderWay) ::sched_yield();
      std::memcpy(Slot(at), gradients.data() + v * kNumel, kBytes);
      written_.store(at + 1, std::memory_order_release);
    }
    while (read_.load(std::memory_order_acquire) != at) ::sched_yield();
    return OkStatus();
  }

 private:
  float* Slot(uint64_t i) const {
    return reinterpret_cast<float*>(memory_->bytes().data() + i % kUnderWay * kBytes);
  }
  std::shared_ptr<SealedMemory> memory_;
  Values params_ = Filled(1);
  alignas(64) std::atomic<uint64_t> written_ = 0;
  alignas(64) std::atomic<uint64_t> read_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread reader_;
};

// The peer of ps_dense_tcp: a simple service with unary calls from four callers. The gradient is a
// field of the message.
class PlainGrpc final : public ParameterServer::Service {
 public:
  Status Start() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return Unavailable("no server");
    stub_ = ParameterServer::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                         grpc::InsecureChannelCredentials()));
    return OkStatus();
  }
  grpc::Status Push(grpc::ServerContext*, const PushRequest* request, PushReply*) override {
    const TensorProto& tensor = request->slice(0).tensor();
    Sgd(params_.data() + request->slice(0).offset(),
        reinterpret_cast<const float*>(tensor.content().data()));
    return grpc::Status::OK;
  }
  Status PushAll(const Values& gradients) {
    constexpr int kCallers = 4;
    std::vector<Status> results(kCallers);
    std::vector<std::thread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        for (int v = c; v < kVariables && results[c].ok(); v += kCallers) {
          grpc::ClientContext context;
          PushRequest request;
          PushReply reply;
          SliceTensor* const slice = request.add_slice();
          slice->set_offset(v * kNumel);
          slice->mutable_tensor()->set_content(gradients.data() + v * kNumel, kBytes);
          results[c] = rpc::FromGrpc(stub_->Push(&context, request, &reply));
        }
      });
    }
    for (auto& caller : callers) caller.join();
    for (const Status& result : results) TD_RETURN_IF_ERROR(result);
    return OkStatus();
  }

 private:
  Values params_ = Filled(1);
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ParameterServer::Stub> stub_;
};

// Reports the MB/s of `run` and its processor seconds per GB. Each call of `run` must move
// kAllBytes bytes.
template <typename Run>
Status Measure(const std::string& name, double seconds, const Run& run, Report& report) {
  for (int warm = 0; warm < 3; ++warm) TD_RETURN_IF_ERROR(run());
  const double cpu = CpuSeconds();
  const Time start = SteadyNow();
  double taken = 0, moved = 0;
  while (taken < seconds) {
    TD_RETURN_IF_ERROR(run());
    moved += static_cast<double>(kAllBytes);
    taken = Seconds(SteadyNow() - start);
  }
  report.Add(name + "_mb_per_s", moved / taken / 1e6);
  report.Add(name + "_cpu_s_per_gb", (CpuSeconds() - cpu) / moved * 1e9);
  return OkStatus();
}

// Measures the pushes of ps_dense_tcp with TLS certificates of server and client.
Status MeasureTls(const Values& gradients, double seconds, Report& report) {
  std::string dir = std::filesystem::temp_directory_path().string() + "/tandem_tls_XXXXXX";
  if (mkdtemp(dir.data()) == nullptr) return PermissionDenied("cannot make %s", dir);
  Status measured;
  {
    const TestAuthority authority(dir, "bench");
    pserver::PserverOptions served;
    ps::PsOptions options;
    options.transport = ps::PsTransport::kGrpc;
    served.rpc.tls = authority.Issue(options.job, rpc::PeerRole::kPserver);
    options.security.tls = authority.Issue(options.job, rpc::PeerRole::kTrainer);
    DensePs tandem;
    measured = tandem.Start(served, options);
    if (measured.ok()) {
      measured = Measure(
          "push_tls", seconds, [&] { return tandem.PushAll(gradients); }, report);
    }
  }
  std::filesystem::remove_all(dir);
  return measured;
}

}  // namespace

StatusOr<Report> PsDenseFast(const RunOptions& options) {
  const Values gradients = Filled(0.5f);
  Report report;
  {
    DensePs tandem;
    TD_RETURN_IF_ERROR(tandem.Start({}, Over(ps::PsTransport::kShm)));
    TD_RETURN_IF_ERROR(Measure(
        "push", options.seconds, [&] { return tandem.PushAll(gradients); }, report));
  }
  BareRing bare;
  TD_RETURN_IF_ERROR(bare.Start());
  TD_RETURN_IF_ERROR(Measure(
      "bare", options.seconds, [&] { return bare.PushAll(gradients); }, report));
  return report;
}

StatusOr<Report> PsDenseTcp(const RunOptions& options) {
  const Values gradients = Filled(0.5f);
  Report report;
  {
    DensePs tandem;
    TD_RETURN_IF_ERROR(tandem.Start({}, Over(ps::PsTransport::kGrpc)));
    TD_RETURN_IF_ERROR(Measure(
        "push", options.seconds, [&] { return tandem.PushAll(gradients); }, report));
  }
  TD_RETURN_IF_ERROR(MeasureTls(gradients, options.seconds, report));
  PlainGrpc plain;
  TD_RETURN_IF_ERROR(plain.Start());
  TD_RETURN_IF_ERROR(Measure(
      "plain", options.seconds, [&] { return plain.PushAll(gradients); }, report));
  return report;
}

StatusOr<Report> PsPullFast(const RunOptions& options) {
  Report report;
  DensePs tandem;
  TD_RETURN_IF_ERROR(tandem.Start({}, Over(ps::PsTransport::kShm)));
  TD_RETURN_IF_ERROR(Measure(
      "pull", options.seconds, [&] { return tandem.PullAll(); }, report));
  const Values gradients = Filled(0.5f);
  const auto train = [&]() -> Status {
    TD_RETURN_IF_ERROR(tandem.PushAll(gradients));
    return tandem.PullAll();
  };
  TD_RETURN_IF_ERROR(Measure("push_and_pull", options.seconds, train, report));
  Values to = Filled(0);
  const auto copy = [&] {
    std::memcpy(to.data(), gradients.data(), kAllBytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    return OkStatus();
  };
  TD_RETURN_IF_ERROR(Measure("memcpy", options.seconds, copy, report));
  return report;
}

}  // namespace tandem::bench
