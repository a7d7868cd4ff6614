// The program tandem-trainer: one trainer of a job. tandemrun usually starts this program.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/endpoint.h"
#include "common/base/error_text.h"
#include "common/base/metrics.h"
#include "common/base/own_flags.h"
#include "common/http/http_server.h"
#include "common/http/status_page.h"
#include "common/launcher/launcher_lease.h"
#include "common/os/core_limit.h"
#include "common/os/file_limit.h"
#include "common/os/files.h"
#include "common/os/float_mode.h"
#include "common/os/host_limits.h"
#include "common/rpc/credentials/token.h"
#include "common/rpc/grpc_log.h"
#include "common/strategy/strategy.h"
#include "common/threads/stop_request.h"
#include "proto/job.pb.h"
#include "trainer/config/nccl_environment.h"
#include "trainer/config/rank_return.h"
#include "trainer/job/job.h"
#include "trainer/models/models.h"
#include "trainer/modes/rank_world.h"
#include "trainer/monitoring/cpu_samples.h"
#include "trainer/monitoring/event_file.h"
#include "trainer/monitoring/status_reporter.h"
#include "trainer/session/elastic.h"
#include "trainer/session/job_notes.h"
#include "trainer/session/local_replicas.h"
#include "trainer/session/programs.h"
#include "trainer/tune/auto_tune.h"

DEFINE_string(job_file, "", "job file (JobConfig in text form, proto/job.proto)");
DEFINE_string(result_json, "", "file to which rank 0 writes its result, as one JSON object");
DEFINE_string(strategy_out, "",
              "file to which rank 0 writes the strategy, with the settings that auto chose");
DEFINE_string(tensorboard_dir, "",
              "directory to which rank 0 writes event files for TensorBoard: curves, and "
              "histograms of the parameters at each evaluation");
TD_FORMER_FLAG(event_dir, tensorboard_dir);
DEFINE_string(log_format, "auto", "format of progress lines: auto, bar, plain, fleet or json");
DEFINE_string(pservers, "",
              "addresses of the pservers, HOST:PORT or unix:/PATH, separated by commas (default: "
              "from the environment)");
DEFINE_string(
    rendezvous, "",
    "rendezvous of the ranks: tcp://HOST:PORT or HOST:PORT (rank 0 listens there), file:///DIR (a "
    "directory that all hosts share), or etcd://HOST:PORT/PREFIX (default: from the environment)");
DEFINE_string(listen_host, "",
              "address on which this rank listens for other ranks (default: the local address of "
              "its route to rank 0 or the network)");
DEFINE_string(tls_dir, "",
              "directory with this trainer's tls.crt and tls.key, and with ca.crt of the job's "
              "authority (tandem certs issue); replaces the next three flags");
DEFINE_string(tls_cert, "", "file with this trainer's certificate (PEM)");
DEFINE_string(tls_key, "", "file with this trainer's private key (PEM)");
DEFINE_string(tls_ca, "",
              "file with the certificates of the authority of pservers and ranks (PEM); empty: no "
              "TLS");
DEFINE_string(status_listen, "", "HOST:PORT of the status page and of /metrics (default: none)");
TD_FORMER_FLAG(admin_listen, status_listen);
DEFINE_string(health_listen, "",
              "HOST:PORT that serves only /healthz and /readyz, for probes (default: none)");
DEFINE_bool(insecure_allow_network, false,
            "let --status_listen, --health_listen and the rendezvous be network addresses, in the "
            "clear");
DEFINE_bool(core_dumps, false,
            "write a core file on a crash; it contains parameters, the secret and keys");
DEFINE_bool(list_models, false, "list the models of the model zoo and their arguments");
DEFINE_bool(check, false,
            "check the job, print the settings that differ from the defaults, and exit");

namespace tandem::trainer {
namespace {

constexpr char kUsage[] =
    "tandem-trainer: one trainer of a Tandem job.\n"
    "  tandem-trainer --job_file=job.pbtxt [--FIELD=VALUE ...]\n"
    "Every field of the job and every knob can be set: --mode=collective --epochs=3\n"
    "--optimizer.learning_rate=0.1 (tandem knobs list). Usually tandemrun starts it.\n";

using Environment = std::map<std::string, std::string>;

Environment ReadEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const size_t eq = line.find('=');
    if (eq != std::string::npos) environment[line.substr(0, eq)] = line.substr(eq + 1);
  }
  return environment;
}

// Removes from argv the arguments --name=value whose name is no flag of this program, and returns
// them. Such a name is a field of the job or a knob. INVALID_ARGUMENT: such an argument has no
// value.
StatusOr<Settings> TakeOverrides(int* argc, char** argv) {
  Settings overrides;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string arg = argv[i];
    const std::string body = arg.substr(std::min(arg.size(), arg.find_first_not_of('-')));
    const size_t eq = body.find('=');
    const std::string name = body.substr(0, eq);
    gflags::CommandLineFlagInfo info;
    const bool own =
        gflags::GetCommandLineFlagInfo(name.c_str(), &info) ||
        (name.starts_with("no") && gflags::GetCommandLineFlagInfo(name.substr(2).c_str(), &info));
    if (!arg.starts_with("-") || own) {
      argv[kept++] = argv[i];
    } else if (eq != std::string::npos) {
      overrides.emplace_back(name, body.substr(eq + 1));
    } else {
      return InvalidArgument(
          "%s needs a value, because it is a field of the job or a knob: --%s=VALUE [TD1003]", arg,
          name);
    }
  }
  *argc = kept;
  return overrides;
}

Status WriteResult(const std::string& path, const SessionResult& result) {
  nlohmann::ordered_json json;
  if (result.speed_test) {
    json["speed_test"] = true;
  } else {
    if (!result.metric_name.empty()) json[result.metric_name] = result.metric;
    json["loss"] = result.loss;
    for (const auto& [name, value] : result.scores) json[name] = value;
  }
  json["images_per_s"] = result.samples_per_s;
  json["steps"] = result.steps;
  json["seconds"] = result.seconds;
  json["data_wait_seconds"] = result.data_wait_seconds;
  json["batches_ready"] = result.batches_ready;
  if (!result.speed_test) json["params_sha256"] = result.params_sha256;
  json["counts"] = CountsByName(result.counts);
  auto& history = json["history"] = {{"step", {}}, {"steps", {}}, {"seconds", {}}, {"loss", {}}};
  for (const RunHistory::Entry& run : result.history.entries()) {
    history["step"].push_back(run.step);
    history["steps"].push_back(run.steps);
    history["seconds"].push_back(run.seconds);
    history["loss"].push_back(run.loss);  // JSON has no NaN; a loss of NaN is written as null
  }
  return Annotate(WriteTextFile(path, json.dump() + "\n"), "the result");
}

StatusOr<RankInfo> Rank(const Environment& environment) {
  TD_ASSIGN_OR_RETURN(RankInfo rank, RankFromEnv(environment));
  if (!FLAGS_pservers.empty()) rank.pservers = absl::StrSplit(FLAGS_pservers, ',');
  if (!FLAGS_rendezvous.empty()) rank.rendezvous = FLAGS_rendezvous;
  if (!FLAGS_listen_host.empty()) rank.listen_host = FLAGS_listen_host;
  rank.network_allowed = FLAGS_insecure_allow_network;
  return rank;
}

SessionOptions OptionsOf(const EffectiveJob& job, const RankInfo& rank, LogFormat format,
                         const Environment& environment) {
  SessionOptions options;
  options.job_dir = JobDir(FLAGS_job_file);
  options.job_text = job.text;
  options.rank = rank;
  options.progress.format = format;
  options.progress.is_terminal = IsTerminal(stderr);
  options.progress.color = !environment.contains("NO_COLOR");
  options.progress.columns = [] { return TerminalColumns(stderr); };
  options.sink = FileSink(stderr);
  return options;
}

// Starts the CPU samples of pe_profile_fname. Returns nullptr if the job does not set
// pe_profile_fname.
StatusOr<std::unique_ptr<CpuSamples>> SampleCpu(const JobConfig& config, const RankInfo& rank) {
  std::string path = config.strategy().runtime_flags().pe_profile_fname();
  if (path.empty()) return nullptr;
  if (path[0] != '/') path = JobDir(FLAGS_job_file) + path;
  if (rank.size > 1) path += "." + std::to_string(rank.rank);
  return CpuSamples::Start(path);
}

// Writes the strategy to a separate file. If `auto` chose fields of the job outside the strategy,
// the file contains them as comments.
Status WriteStrategy(const std::string& path, const JobConfig& config, const Settings& chosen) {
  DistributedStrategy strategy = config.strategy();
  strategy.clear_auto_();
  std::string text = "# Written by tandem-trainer --strategy_out\n";
  for (const auto& [name, value] : chosen) {
    if (name == "threads") absl::StrAppend(&text, "# with ", name, ": ", value, " in the job\n");
  }
  return Annotate(WriteTextFile(path, text + strategy::SaveText(strategy)), "the strategy");
}

// Prints the lines of `text`, an effective job, that have settings chosen by `auto`.
void TellChosen(const std::string& text) {
  const std::string origin = strategy::AutoOrigin().ToString();
  for (const auto line : absl::StrSplit(text, '\n')) {
    if (absl::StrContains(line, origin)) {
      std::fprintf(stderr, "%s\n", std::string(line).c_str());
    }
  }
}

// If the job sets `auto`, chooses settings and adds them to the job.
Status ChooseSettings(const JobSources& sources, const RankInfo& rank, const ModeSecrets& secrets,
                      StopSwitch& stop, const Clock& clock, EffectiveJob* job) {
  JobSources with = sources;
  if (job->config->strategy().auto_()) {
    AutoTuneContext context;
    context.sources = sources;
    context.session.job_dir = JobDir(FLAGS_job_file);
    context.session.rank = rank;
    context.secrets = secrets;
    context.tell = [](const std::string& line) {
      std::fprintf(stderr, "auto: %s\n", line.c_str());
    };
    TD_ASSIGN_OR_RETURN(with.chosen, AutoTune(context, *job->config, stop, clock));
    TD_ASSIGN_OR_RETURN(*job, LoadJob(with, rank.workers()));
    if (rank.rank == 0) TellChosen(job->text);
  }
  if (rank.rank != 0 || FLAGS_strategy_out.empty()) return OkStatus();
  return WriteStrategy(FLAGS_strategy_out, *job->config, with.chosen);
}

// Prints a warning if ranks communicate over a network without encryption. PERMISSION_DENIED: the
// user has not allowed such communication.
Status WarnOfNetwork(const JobConfig& config, const RankInfo& rank, const rpc::TlsFiles& tls) {
  TD_ASSIGN_OR_RETURN(const std::string warning, CheckNetwork(config, rank, tls));
  if (!warning.empty()) std::fprintf(stderr, "tandem-trainer: warning: %s\n", warning.c_str());
  return OkStatus();
}

// Opens the event file if tensorboard_dir is set and this is rank 0. Returns nullptr otherwise.
StatusOr<std::unique_ptr<EventFile>> OpenEvents(const RankInfo& rank) {
  if (FLAGS_tensorboard_dir.empty() || rank.rank != 0) return nullptr;
  return EventFile::Create(FLAGS_tensorboard_dir);
}

// Sets the NCCL settings of the job in the environment of this process. The caller must not have
// started a second thread, because that thread could read the environment at the same time. Rank 0
// logs the settings.
void SetNcclEnvironment(const JobConfig& config, const RankInfo& rank, Environment environment) {
  if (config.mode() != COLLECTIVE || config.place() == "cpu") return;
  for (const auto& [name, value] : NcclEnvironment(config.strategy().runtime_flags())) {
    setenv(name.c_str(), value.c_str(), 1);
    environment[name] = value;
  }
  const std::string variables = NcclVariables(environment);
  if (rank.rank != 0 || variables.empty()) return;
  std::fprintf(stderr, "environment of NCCL: %s\n", variables.c_str());
}

// Returns a loader of the job for other numbers of ranks. `sources` must outlive the loader.
JobForRanks LoaderOf(const JobSources& sources) {
  return [&sources](int ranks) { return LoadJob(sources, ranks); };
}

// Returns the secret of the job; "": it has none.
StatusOr<std::string> SecretOf(const RankInfo& rank) {
  if (rank.secret_file.empty()) return std::string();
  return rpc::ReadSecretFile(rank.secret_file);
}

Status Train(JobSources sources) {
  TD_ASSIGN_OR_RETURN(const LogFormat format, ParseLogFormat(FLAGS_log_format));
  TD_ASSIGN_OR_RETURN(const RankInfo rank, Rank(sources.environment));
  if (rank.rank == 0 && !FLAGS_result_json.empty()) {
    TD_RETURN_IF_ERROR(Annotate(CheckWritable(FLAGS_result_json), "--result_json"));
  }
  sources.heter_workers = rank.heter_workers;
  TD_ASSIGN_OR_RETURN(EffectiveJob job, LoadJob(sources, rank.workers()));
  const bool elastic = job.config->strategy().elastic() || !rank.world_file.empty();
  if (rank.rank == 0) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const std::string notes =
        IdleCoresNote(*job.config, rank, cores) + ShareNote(*job.config, rank.workers());
    std::fputs((job.notes + job.text + notes).c_str(), stderr);
  }
  if (rank.peers_return) TD_RETURN_IF_ERROR(CheckReturn(*job.config));
  if (FLAGS_check) return CheckPrograms(*job.config, JobDir(FLAGS_job_file), rank.workers());
  if (elastic) TD_RETURN_IF_ERROR(CheckElastic(LoaderOf(sources), *job.config, rank));

  SetNcclEnvironment(*job.config, rank, sources.environment);
  TD_ASSIGN_OR_RETURN(const std::string secret, SecretOf(rank));
  TD_ASSIGN_OR_RETURN(
      const rpc::TlsFiles tls,
      rpc::ChooseTlsFiles(FLAGS_tls_dir, {FLAGS_tls_cert, FLAGS_tls_key, FLAGS_tls_ca}));
  TD_RETURN_IF_ERROR(WarnOfNetwork(*job.config, rank, tls));
  const ModeSecrets secrets = {secret, tls, FLAGS_insecure_allow_network};
  const RealClock clock;
  StopSwitch stop;
  const StopRequests requests([&stop](int) { stop.Stop(); }, [](int) { _exit(kExitLostPeer); });
  const auto lease = EndWithLease(rank.lease_file, "tandem-trainer");
  TD_RETURN_IF_ERROR(ChooseSettings(sources, rank, secrets, stop, clock, &job));
  Metrics metrics;
  std::unique_ptr<EventFile> events;
  if (!elastic) {  // in an elastic job, RunElastic opens the event file of the current rank 0
    TD_ASSIGN_OR_RETURN(events, OpenEvents(rank));
  }
  StatusReporter board(metrics, clock, events.get());
  const auto page = http::ServeStatus(
      FLAGS_status_listen, FLAGS_insecure_allow_network, [&board] { return board.Document(); },
      metrics);
  TD_RETURN_IF_ERROR(Annotate(page.status(), "--status_listen"));
  if (*page != nullptr) {
    std::fprintf(stderr, "status page http://%s/%s\n", ToString((*page)->endpoint()).c_str(),
                 IsLoopback((*page)->endpoint())
                     ? ""
                     : " (warning: everyone with access to this address can read it)");
  }
  const auto health = http::ServeHealth(FLAGS_health_listen, FLAGS_insecure_allow_network,
                                        [&board] { return board.Document(); });
  TD_RETURN_IF_ERROR(Annotate(health.status(), "--health_listen"));
  SessionOptions options = OptionsOf(job, rank, format, sources.environment);
  options.board = &board;
  TD_ASSIGN_OR_RETURN(const auto samples, SampleCpu(*job.config, rank));
  const auto finish = [](const SessionResult& result, bool leads) {
    const bool asked = leads && !FLAGS_result_json.empty();
    return asked ? WriteResult(FLAGS_result_json, result) : OkStatus();
  };
  if (elastic) {
    TD_ASSIGN_OR_RETURN(const ElasticResult end, RunElastic({LoaderOf(sources), std::move(options),
                                                             secrets, FLAGS_tensorboard_dir},
                                                            stop, clock));
    return finish(end.result, end.leads);
  }
  TD_ASSIGN_OR_RETURN(const auto places,
                      LocalReplicas::Make(*job.config, std::move(options), secrets, clock));
  TD_ASSIGN_OR_RETURN(const SessionResult result, stop.Run(*places));
  return finish(result, rank.rank == 0);
}

// Restarts this process with OMP_WAIT_POLICY=passive, because OpenMP threads that spin while they
// wait take processor time from other threads (two trainers on two cores run five times slower).
// The process executes its own program again, because libgomp reads its environment before main.
void WaitPassively(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);  // returns only on failure; the process continues unchanged
}

int Main(int argc, char** argv) {
  FlushDenormals();
  WaitPassively(argv);
  BlockStopSignals();
  signal(SIGPIPE, SIG_IGN);
  RaiseFileLimit();
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  rpc::InstallGrpcLog();
  if (argc > 1 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
    std::cout << kUsage << OwnFlagsHelp(__FILE__);
    return kExitOk;
  }
  if (argc > 1 && std::string_view(argv[1]) == "--version") {
    std::cout << "tandem-trainer " TANDEM_VERSION "\n";
    return kExitOk;
  }

  JobSources sources;
  auto overrides = TakeOverrides(&argc, argv);
  Status status = overrides.status();
  if (status.ok()) {
    gflags::ParseCommandLineFlags(&argc, &argv, true);
    LimitCoreDumps(FLAGS_core_dumps);
    if (argc > 1 && FLAGS_job_file.empty()) FLAGS_job_file = argv[1];
    if (FLAGS_list_models) {
      std::cout << ListModelsText();
      return kExitOk;
    }
    sources.path = FLAGS_job_file;
    sources.overrides = *std::move(overrides);
    for (const auto& flag : ProgramFlags(__FILE__)) sources.flags.push_back(flag.name);
    sources.environment = ReadEnvironment();
    status = Train(std::move(sources));
  }
  if (status.ok()) return kExitOk;
  std::cerr << ErrorText("tandem-trainer", status) << std::flush;
  return ExitCodeOf(status);
}

}  // namespace
}  // namespace tandem::trainer

int main(int argc, char** argv) {
  tandem::NameHostLimits("tandem-trainer");
  return tandem::trainer::Main(argc, argv);
}
