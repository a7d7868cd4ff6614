// Implements the command serve, which answers requests for predictions.
#include <grpcpp/impl/codegen/service_type.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/mutex.h"
#include "common/http/status_page.h"
#include "common/rpc/credentials/token.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/server.h"
#include "common/threads/stop_request.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/reader_access.h"
#include "deploy/cli/tools/program_stages.h"
#include "trainer/serving/inference_service.h"
#include "trainer/serving/served_model.h"
#include "trainer/serving/server_source.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "tandem serve JOB_FILE: answers requests for predictions with the Open Inference Protocol over "
    "gRPC.\nThe values come from the pservers of a running job (--log_dir or --pservers, also the "
    "addresses of\nread replicas), or from checkpoints (--checkpoints). SIGTERM or Ctrl-C ends the "
    "server after the\nrequests in progress.\n";

constexpr char kListen[] = "127.0.0.1:8500";
constexpr size_t kMemoryBytesMax = size_t{1} << 30;  // memory of received requests
constexpr Duration kStopWait = std::chrono::seconds(20);

std::vector<FlagSpec> ServeFlags() {
  std::vector<FlagSpec> flags = AccessFlags({
      {"log_dir", "", "DIR",
       "log directory of the job (default: log-JOB, if it is the only one here)"},
      ReplicaFlag(),
      {"checkpoints", "checkpoint", "DIR",
       "serve the newest checkpoint of this directory, and newer ones as they appear, instead of "
       "the values of running servers"},
      {"versions", "", "N", "--checkpoints: number of the newest steps to serve (default 1)"},
      {"shadow", "", "STEP",
       "--checkpoints: compute each request also with this step, and count the differences"},
      {"outputs", "", "A,B", "the variables to compute (default: the inputs of the loss)"},
      {"listen", "", "HOST:PORT", "address of the gRPC server (default 127.0.0.1:8500)"},
      {"listen_cert", "", "FILE", "PEM file with the server's certificate: callers use TLS"},
      {"listen_key", "", "FILE", "PEM file with the key of --listen_cert"},
      {"listen_ca", "", "FILE", "PEM file: callers need a certificate that it signed"},
      {"token_file", "", "FILE",
       "callers must send the text of this file: metadata \"authorization: Bearer TEXT\""},
      {"status_listen", "", "HOST:PORT", "address of a status page with /metrics and /readyz"},
      {"threads", "", "N", "threads that compute batches (default: the number of processors)"},
      {"batch_max", "", "N", "maximum number of samples of a request or a batch (default 64)"},
      {"queue_max", "", "N", "maximum number of requests that wait (default 1024)"},
      {"refresh_ms", "", "N",
       "interval at which new values or checkpoints are looked for (default 1000)"},
  });
  // The command prints only a line, and asks no status pages.
  std::erase_if(flags, [](const FlagSpec& flag) {
    const std::string_view name = flag.name;
    return name == "output" || name == "status_pages";
  });
  return flags;
}

// Blocks until the process is asked to stop. Must be made before other threads start.
class StopWait {
 public:
  StopWait() : signals_([this](int) { Stop(); }, [](int signal) { EndBySignal(signal); }) {}
  void Wait() {
    MutexLock lock(mu_);
    while (!stopped_) changed_.WaitUntil(mu_, SteadyNow() + std::chrono::hours(1));
  }

 private:
  void Stop() {
    MutexLock lock(mu_);
    stopped_ = true;
    changed_.NotifyAll();
  }

  Mutex mu_;
  CondVar changed_;
  bool stopped_ TD_GUARDED_BY(mu_) = false;
  StopRequests signals_;
};

// Calls a function at a time, unless this object is destroyed before.
class StopAt {
 public:
  StopAt(Time when, std::function<void()> call)
      : thread_([this, when, call = std::move(call)] {
          {
            MutexLock lock(mu_);
            while (!done_ && SteadyNow() < when) changed_.WaitUntil(mu_, when);
            if (done_) return;
          }
          call();
        }) {}
  ~StopAt() {
    {
      MutexLock lock(mu_);
      done_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool done_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last member, because it uses the others
};

StatusOr<trainer::ServingOptions> OptionsOf(const ParsedArgs& args) {
  trainer::ServingOptions options;
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  TD_ASSIGN_OR_RETURN(options.threads, args.GetInt("threads", processors, 1, 1024));
  TD_ASSIGN_OR_RETURN(options.batch_max, args.GetInt("batch_max", 64, 1, 1 << 20));
  TD_ASSIGN_OR_RETURN(const int queue, args.GetInt("queue_max", 1024, 1, 1 << 20));
  options.queue_max = static_cast<size_t>(queue);
  TD_ASSIGN_OR_RETURN(const int refresh, args.GetInt("refresh_ms", 1000, 10, 86400000));
  options.refresh = std::chrono::milliseconds(refresh);
  return options;
}

StatusOr<trainer::ModelSpec> SpecOf(const ParsedArgs& args) {
  trainer::ModelSpec spec;
  TD_ASSIGN_OR_RETURN(spec.options, OptionsOf(args));
  spec.checkpoints = args.Get("checkpoints");
  spec.outputs = absl::StrSplit(args.Get("outputs"), ',', absl::SkipEmpty());
  TD_ASSIGN_OR_RETURN(spec.keep, args.GetInt("versions", 1, 1, 1000));
  for (const char* name : {"versions", "shadow"}) {
    if (!args.Has(name) || !spec.checkpoints.empty()) continue;
    return InvalidArgument(
        "--%s has no effect without --checkpoints [TD1005]; hint: name a directory of checkpoints",
        name);
  }
  if (args.Has("shadow")) {
    TD_ASSIGN_OR_RETURN(spec.shadow, args.GetInt("shadow", 0, 0, INT32_MAX));
  }
  // The program of the model, before all passes.
  TD_ASSIGN_OR_RETURN(const ProgramStages stages,
                      HistoryOf(args.positional[0], 1,
                                {{"mode", "local"}, {"strategy.runtime_flags.use_dali", "false"}}));
  spec.name = stages.job;
  spec.forward = stages.points.front().second;
  return spec;
}

// Returns the source of the live version; null: the versions are checkpoints.
// `stop`: polled while the source waits for servers.
StatusOr<std::unique_ptr<trainer::ModelSource>> LiveSource(const ParsedArgs& args,
                                                           const trainer::ModelSpec& spec,
                                                           std::function<bool()> stop) {
  if (!spec.checkpoints.empty()) {
    for (const char* name : {"log_dir", "pservers", "replica"}) {
      if (!args.Has(name)) continue;
      return InvalidArgument("--checkpoints and --%s exclude each other [TD1005]", name);
    }
    return nullptr;
  }
  ParsedArgs access_args = args;
  access_args.positional.clear();
  if (args.Has("log_dir")) access_args.positional.push_back(args.Get("log_dir"));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindToRead(access_args));
  TD_ASSIGN_OR_RETURN(const auto servers, ReaderAddresses(access, access_args));
  ps::ReaderOptions options = ReaderOptionsOf(access);
  options.stop = std::move(stop);
  auto source = trainer::ServerSource::Connect(servers, options);
  if (!source.ok()) return source.status();
  return std::unique_ptr<trainer::ModelSource>(*std::move(source));
}

// Returns the largest request of the model in bytes, also with elements as numbers in `contents`.
int RequestBytesMax(const trainer::ServingProgram& program, int64_t batch_max) {
  constexpr size_t kOther = 1 << 20, kGrowth = 3;
  size_t sample = 0;
  for (const trainer::ServedTensor& input : program.inputs) sample += input.sample.bytes();
  return static_cast<int>(std::min(kOther + kGrowth * static_cast<size_t>(batch_max) * sample,
                                   size_t{rpc::kMessageBytesMax}));
}

StatusOr<rpc::ServerOptions> ListenOf(const ParsedArgs& args) {
  rpc::ServerOptions options;
  TD_ASSIGN_OR_RETURN(options.listen, ParseEndpoint(args.Get("listen", kListen)));
  options.tls = {args.Get("listen_cert"), args.Get("listen_key"), args.Get("listen_ca")};
  TD_RETURN_IF_ERROR(rpc::CheckTlsFiles(options.tls).status());
  options.insecure_allow_network = args.Has("insecure_allow_network");
  return options;
}

StatusOr<std::string> TokenOf(const ParsedArgs& args) {
  if (!args.Has("token_file")) return std::string();
  return rpc::ReadSecretFile(args.Get("token_file"));
}

http::StatusDocument DocumentOf(const trainer::ServedModel& model) {
  http::StatusDocument document;
  document.title = "tandem serve of model " + model.name();
  document.ready = model.ready();
  document.facts = {{"model", model.name()}, {"versions", absl::StrJoin(model.versions(), ", ")}};
  if (const auto newest = model.Choose(""); newest.ok()) {
    document.facts.emplace_back("values", newest->version->values_version());
  }
  return document;
}

void Announce(const trainer::ServedModel& model, const Endpoint& endpoint) {
  const auto chosen = model.Choose("");
  if (!chosen.ok()) return;
  const trainer::ServingProgram& program = chosen->version->program();
  const auto names = [](const std::vector<trainer::ServedTensor>& tensors) {
    return absl::StrJoin(tensors, ", ", [](std::string* out, const trainer::ServedTensor& tensor) {
      *out += tensor.name;
    });
  };
  std::printf("serving model %s at %s, version %s (values of %s): %s -> %s\n", model.name().c_str(),
              ToString(endpoint).c_str(), chosen->name.c_str(),
              chosen->version->values_version().c_str(), names(program.inputs).c_str(),
              names(program.outputs).c_str());
  std::fflush(stdout);
}

Status Serve(const ParsedArgs& args) {
  if (args.positional.size() != 1) {
    return InvalidArgument(
        "expected one argument, the job file of the model [TD1007]; hint: run tandem serve "
        "JOB_FILE --log_dir=DIR");
  }
  BlockStopSignals();
  StopWait stop;
  rpc::InstallGrpcLog();
  TD_ASSIGN_OR_RETURN(trainer::ModelSpec spec, SpecOf(args));
  const int64_t batch_max = spec.options.batch_max;
  TD_ASSIGN_OR_RETURN(rpc::ServerOptions listen, ListenOf(args));
  TD_ASSIGN_OR_RETURN(const std::string token, TokenOf(args));
  std::atomic<bool> stopping = false;
  TD_ASSIGN_OR_RETURN(auto live, LiveSource(args, spec, [&stopping] { return stopping.load(); }));
  Metrics metrics;
  TD_ASSIGN_OR_RETURN(const auto model,
                      trainer::ServedModel::Start(std::move(spec), std::move(live), metrics));
  TD_ASSIGN_OR_RETURN(const auto newest, model->Choose(""));
  listen.message_bytes_max = RequestBytesMax(newest.version->program(), batch_max);
  listen.memory_bytes_max = kMemoryBytesMax;
  const auto service =
      trainer::MakeInferenceService({.token = token, .version = TANDEM_VERSION}, *model, metrics);
  TD_ASSIGN_OR_RETURN(const auto server, rpc::RpcServer::Start(listen, {service.get()}));
  TD_ASSIGN_OR_RETURN(const auto page, http::ServeStatus(
                                           args.Get("status_listen"), listen.insecure_allow_network,
                                           [&model] { return DocumentOf(*model); }, metrics));
  server->SetServing(true);
  Announce(*model, server->endpoint());
  stop.Wait();
  server->SetServing(false);
  // The server waits for calls in progress. At the deadline, those that still wait fail.
  const Time deadline = SteadyNow() + kStopWait;
  StopAt at_deadline(deadline, [&] {
    stopping = true;
    model->Stop();
  });
  server->Stop(deadline);
  std::printf("stopped on request\n");
  return OkStatus();
}

}  // namespace

int RunServe(const Args& args) { return RunBody("serve", kUsage, ServeFlags(), args, Serve); }

}  // namespace tandem::deploy
