// tandem-pserver: a server that stores slices of a job's parameters and applies gradients to them.
#include <fcntl.h>
#include <gflags/gflags.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/error_text.h"
#include "common/base/nearest.h"
#include "common/base/own_flags.h"
#include "common/base/predecessor.h"
#include "common/os/core_limit.h"
#include "common/os/file_limit.h"
#include "common/os/float_mode.h"
#include "common/os/host_limits.h"
#include "common/rpc/credentials/token.h"
#include "common/rpc/grpc_log.h"
#include "common/threads/time_slice.h"
#include "pserver/server_process.h"

DEFINE_string(listen, "127.0.0.1:0",
              "Address to listen on, HOST:PORT (port 0 takes a free one) or unix:/PATH");
DEFINE_string(listen_fd, "",
              "Inherited descriptors of sockets that already listen on the address of --listen, "
              "separated by commas");
DEFINE_string(resp_listen, "",
              "Address at which Redis clients may read rows and dense variables, HOST:PORT (port 0 "
              "takes a free one) or unix:/PATH; empty: none");
DEFINE_int32(index, 0, "Index of this server in the job, from 0");
DEFINE_string(job, "", "Name of the job; empty: the job of the first trainer");
DEFINE_string(place, "cpu",
              "Device that stores and updates dense slices: cpu, cuda, cuda:N. Table rows are "
              "always in host memory");
DEFINE_int32(trainers, 0, "Number of trainers of the job; 0: the first trainer determines it");
DEFINE_string(data_dir, "", "Directory for checkpoints; empty: no checkpoints");
DEFINE_uint64(
    checkpoint_every_steps, 0,
    "Number of steps between two checkpoints; 0: checkpoints only on request and at the end");
DEFINE_int32(checkpoint_deltas, 0,
             "With checkpoint_every_steps: number of delta checkpoints, with only the changed "
             "table rows, after each full checkpoint");
DEFINE_string(
    durability, "none",
    "Durability of acknowledged pushes: none (a lost server loses the pushes after its last "
    "checkpoint), replayable (trainers keep pushes until the next checkpoint, so pushes are lost "
    "only if the trainer is lost too; needs data_dir), logged (no push is lost; needs data_dir)");
DEFINE_uint64(keep_pushes_mb, 1024,
              "With durability replayable: maximum memory of a trainer for kept pushes to all "
              "servers; at the limit it requests a checkpoint and waits");
DEFINE_string(wal_sync, "interval",
              "With durability logged or replayable: sync of the write-ahead log to disk, against "
              "loss of power: none, interval, always (before a push is acknowledged)");
DEFINE_int32(wal_sync_interval_ms, 100, "Time between two syncs with wal_sync=interval");
DEFINE_int32(standbys, 0,
             "Number of standbys of this server: processes that keep a copy of its state, one of "
             "which replaces it when it is lost. Needs durability=logged");
DEFINE_string(replication, "quorum",
              "With standbys: when a push is acknowledged: quorum (when a majority of the server "
              "and its standbys has logged it) or async (when the server has logged it; pushes "
              "that are lost with its disk are counted)");
DEFINE_int32(member, 0,
             "With standbys: number of this process among the server and its standbys, from 0");
DEFINE_int32(member_fd, -1,
             "Inherited descriptor of a socket to tandemrun, which decides whether this process is "
             "the primary or a standby; -1: it is the primary");
DEFINE_string(replica_of, "",
              "Address of a server. This process keeps a copy of its state and answers only reads; "
              "empty: it is no replica. Needs durability=logged on both sides");
DEFINE_uint64(
    log_keep_mb, 0,
    "With durability logged: MB of the write-ahead log that stay on the disk although a "
    "checkpoint contains them, for tandem rows and tandem restore --step; at most half of "
    "the free bytes");
DEFINE_string(snapshot_keep, "last=2",
              "Global snapshots (tandem save --snapshot) to keep in data_dir: last=N (the newest "
              "N), hourly=N and daily=N (the newest of each of the last N hours and days with a "
              "snapshot), such as last=3,hourly=24,daily=7");
DEFINE_string(tls_dir, "",
              "Directory with this server's tls.crt and tls.key, and with ca.crt of the callers' "
              "authority (tandem certs issue). Replaces the next three flags");
DEFINE_uint64(
    table_memory_mb, 0,
    "Memory for table rows; other rows are stored in rocksdb_path. 0: all rows are in memory");
DEFINE_string(rocksdb_path, "database",
              "With table_memory_mb: directory for rows outside memory; the server removes old "
              "rows in it at the start");
DEFINE_string(tls_cert, "", "PEM file with this server's certificate");
DEFINE_string(tls_key, "", "PEM file with the key of tls_cert");
DEFINE_string(tls_ca, "", "PEM file with the authority of the trainers' certificates");
DEFINE_bool(insecure_allow_network, false,
            "Allow listening on network addresses without encryption or authentication");
DEFINE_string(status_listen, "",
              "Address of the status page and of /metrics, HOST:PORT; empty: none");
TD_FORMER_FLAG(admin_listen, status_listen);
DEFINE_string(health_listen, "",
              "Address that serves only /healthz and /readyz, HOST:PORT, for probes; empty: none");
DEFINE_uint64(message_memory_mb, 4096,
              "Memory for gRPC messages of all callers; the server rejects calls that need more");
DEFINE_string(
    audit_log, "",
    "File to which the server appends every call as a JSON line: caller, call, time, result");
DEFINE_bool(core_dumps, false,
            "Write a core file on a crash; it contains parameters, the secret and keys");
DEFINE_int32(rpc_send_thread_num, 12, "Threads for pushes of more than 1 MiB by gRPC");
DEFINE_int32(rpc_get_thread_num, 12, "Threads for pulls by gRPC");
DEFINE_int32(rpc_prefetch_thread_num, 12, "Threads for pulls of rows by gRPC");
DEFINE_int32(
    threads, 2,
    "Threads for other calls, and threads that process the rows of a push or pull in parallel");

namespace tandem::pserver {
namespace {

// Minimum number of files that the process must be allowed to open. With a lower limit, even the
// connections of a small job might exceed the limit.
constexpr uint64_t kFilesMin = 32;
// Maximum value of the flags that limit memory, in MB, as in proto/strategy.proto.
constexpr uint64_t kTableMemoryMax = 1 << 30;
constexpr int kStandbysMax = 16;
constexpr uint64_t kMessageMemoryMin = 16;  // minimum of --message_memory_mb in MB

constexpr char kUsage[] =
    "tandem-pserver: one parameter server of a Tandem job.\n"
    "  tandem-pserver --listen=127.0.0.1:7000 --job=NAME --trainers=N [--data_dir=DIR]\n"
    "The job's secret is read from the file named by TANDEM_SECRET_FILE, when that is set.\n";

// Sets flags from arguments of the forms "--name=value", "--name value", "--bool" and "--nobool".
Status SetFlags(int argc, char** argv) {
  std::vector<std::string> names;
  for (const auto& flag : ProgramFlags(__FILE__)) names.push_back(flag.name);
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--", 0) != 0)
      return InvalidArgument("unexpected argument \"%s\" [TD1010]; hint: run tandem-pserver --help",
                             arg);
    const size_t equals = arg.find('=');
    std::string name = arg.substr(2, equals == std::string::npos ? arg.npos : equals - 2);
    std::string value = equals == std::string::npos ? "" : arg.substr(equals + 1);
    gflags::CommandLineFlagInfo info;
    bool known = gflags::GetCommandLineFlagInfo(name.c_str(), &info);
    if (!known && name.rfind("no", 0) == 0 && equals == std::string::npos) {
      known = gflags::GetCommandLineFlagInfo(name.substr(2).c_str(), &info) && info.type == "bool";
      name = name.substr(2);
      value = "false";
    } else if (known && equals == std::string::npos && info.type == "bool") {
      value = "true";
    } else if (known && equals == std::string::npos) {
      if (++i >= argc) return InvalidArgument("--%s needs a value [TD1003]", name);
      value = argv[i];
    }
    if (!known) {
      return InvalidArgument("unknown flag \"%s\" [TD1002]%s", arg.substr(0, equals),
                             OrDidYouMean(arg.substr(2, equals - 2), names));
    }
    if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
      return InvalidArgument("--%s=%s: expected a value of type %s [TD1004]", name, value,
                             info.type);
    }
  }
  return OkStatus();
}

// Adds the sockets of --listen_fd to `options`. Marks the sockets close-on-exec, so that child
// processes do not inherit them.
Status TakeListeners(const std::string& list, rpc::ServerOptions* options) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    const std::string text = list.substr(begin, comma - begin);
    int fd = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (error != std::errc() || end != text.data() + text.size() || fd <= STDERR_FILENO ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
      return InvalidArgument(
          "--listen_fd=%s: \"%s\" is not a descriptor of a listening socket [TD1004]", list, text);
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    options->listeners.push_back(std::make_shared<Fd>(fd));
    begin = comma + 1;
  }
  return OkStatus();
}

// Takes the socket of --member_fd. Marks it close-on-exec.
StatusOr<Fd> TakeMemberSocket(int fd) {
  if (fd < 0) return Fd();
  int type = 0;
  socklen_t length = sizeof(type);
  if (fd <= STDERR_FILENO || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_SEQPACKET) {
    return InvalidArgument("--member_fd=%d is not a descriptor of a packet socket [TD1004]", fd);
  }
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  return Fd(fd);
}

// Sets the options for snapshots and log entries that stay beside the newest checkpoint.
Status SetKept(PserverOptions* options) {
  const StatusOr<KeepRules> keep = ParseKeepRules(FLAGS_snapshot_keep);
  if (!keep.ok()) return Annotate(keep.status(), "--snapshot_keep");
  options->snapshot_keep = *keep;
  if (FLAGS_log_keep_mb > kTableMemoryMax) {
    return InvalidArgument("--log_keep_mb=%d: expected 0 to %d [TD1004]", FLAGS_log_keep_mb,
                           kTableMemoryMax);
  }
  if (FLAGS_log_keep_mb != 0 && options->durability != Durability::kLogged) {
    return InvalidArgument("--log_keep_mb has no effect without --durability=logged [TD1005]");
  }
  options->log_keep_bytes = FLAGS_log_keep_mb << 20;
  return OkStatus();
}

StatusOr<PserverOptions> OptionsFromFlags() {
  PserverOptions options;
  TD_ASSIGN_OR_RETURN(options.rpc.listen, ParseEndpoint(FLAGS_listen));
  TD_RETURN_IF_ERROR(TakeListeners(FLAGS_listen_fd, &options.rpc));
  if (!FLAGS_resp_listen.empty()) {
    const StatusOr<Endpoint> resp = ParseEndpoint(FLAGS_resp_listen);
    if (!resp.ok()) return Annotate(resp.status(), "--resp_listen");
    options.resp_listen = *resp;
  }
  TD_ASSIGN_OR_RETURN(
      options.rpc.tls,
      rpc::ChooseTlsFiles(FLAGS_tls_dir, {FLAGS_tls_cert, FLAGS_tls_key, FLAGS_tls_ca}));
  options.rpc.insecure_allow_network = FLAGS_insecure_allow_network;
  options.rpc.patience = kPredecessorPatience;
  if (FLAGS_index < 0)
    return InvalidArgument("--index=%d: expected 0 or more [TD1004]", FLAGS_index);
  if (FLAGS_trainers < 0)
    return InvalidArgument("--trainers=%d: expected 0 or more [TD1004]", FLAGS_trainers);
  if (FLAGS_checkpoint_every_steps != 0 && FLAGS_data_dir.empty()) {
    return InvalidArgument("--checkpoint_every_steps has no effect without --data_dir [TD1005]");
  }
  if (FLAGS_checkpoint_deltas < 0) {
    return InvalidArgument("--checkpoint_deltas=%d: expected 0 or more [TD1004]",
                           FLAGS_checkpoint_deltas);
  }
  if (FLAGS_checkpoint_deltas > 0 && FLAGS_checkpoint_every_steps == 0) {
    return InvalidArgument(
        "--checkpoint_deltas has no effect without --checkpoint_every_steps [TD1005]");
  }
  options.checkpoint_deltas = FLAGS_checkpoint_deltas;
  options.index = FLAGS_index;
  options.job = FLAGS_job;
  options.place = FLAGS_place;
  options.trainers = FLAGS_trainers;
  options.data_dir = FLAGS_data_dir;
  options.checkpoint_every_steps = FLAGS_checkpoint_every_steps;
  options.calls.pushes = FLAGS_rpc_send_thread_num;
  options.calls.pulls = FLAGS_rpc_get_thread_num;
  options.calls.row_pulls = FLAGS_rpc_prefetch_thread_num;
  options.calls.others = FLAGS_threads;
  options.audit_log = FLAGS_audit_log;
  if (FLAGS_table_memory_mb > kTableMemoryMax) {
    return InvalidArgument("--table_memory_mb=%d: expected 0 to %d [TD1004]", FLAGS_table_memory_mb,
                           kTableMemoryMax);
  }
  options.table_memory_bytes = FLAGS_table_memory_mb << 20;
  options.cold_dir = FLAGS_rocksdb_path;
  if (FLAGS_message_memory_mb < kMessageMemoryMin || FLAGS_message_memory_mb > kTableMemoryMax) {
    return InvalidArgument("--message_memory_mb=%d: expected %d to %d [TD1004]",
                           FLAGS_message_memory_mb, kMessageMemoryMin, kTableMemoryMax);
  }
  options.rpc.memory_bytes_max = FLAGS_message_memory_mb << 20;
  TD_ASSIGN_OR_RETURN(options.durability, ParseDurability(FLAGS_durability));
  if (FLAGS_keep_pushes_mb == 0 || FLAGS_keep_pushes_mb > kTableMemoryMax) {
    return InvalidArgument("--keep_pushes_mb=%d: expected 1 to %d [TD1004]", FLAGS_keep_pushes_mb,
                           kTableMemoryMax);
  }
  options.keep_bytes_max = FLAGS_keep_pushes_mb << 20;
  TD_ASSIGN_OR_RETURN(options.wal_sync.when, ParseWalSync(FLAGS_wal_sync));
  if (FLAGS_wal_sync_interval_ms < 1) {
    return InvalidArgument("--wal_sync_interval_ms=%d: expected 1 or more [TD1004]",
                           FLAGS_wal_sync_interval_ms);
  }
  options.wal_sync.interval = std::chrono::milliseconds(FLAGS_wal_sync_interval_ms);
  TD_RETURN_IF_ERROR(SetKept(&options));
  if (const char* file = std::getenv("TANDEM_SECRET_FILE"); file != nullptr && *file != '\0') {
    TD_ASSIGN_OR_RETURN(options.secret, rpc::ReadSecretFile(file));
  }
  return options;
}

std::string FromEnv(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Status SetMember(ServerProcessOptions* options) {
  TD_ASSIGN_OR_RETURN(options->member_socket, TakeMemberSocket(FLAGS_member_fd));
  PserverOptions& server = options->server;
  if (FLAGS_standbys < 0 || FLAGS_standbys > kStandbysMax) {
    return InvalidArgument("--standbys=%d: expected 0 to %d [TD1004]", FLAGS_standbys,
                           kStandbysMax);
  }
  server.standbys = FLAGS_standbys;
  server.member = FLAGS_member;
  TD_ASSIGN_OR_RETURN(server.replication, ParseReplication(FLAGS_replication));
  if (server.standbys == 0 && server.replication == Replication::kAsync) {
    return InvalidArgument("--replication=async has no effect without --standbys [TD1005]");
  }
  if (!options->member_socket.valid()) return OkStatus();
  if (server.standbys == 0) {
    return InvalidArgument("--member_fd has no effect without --standbys [TD1005]");
  }
  // Clients and other members know this address before the process serves there.
  if (!server.rpc.listen.is_unix() && server.rpc.listen.port == 0) {
    return InvalidArgument(
        "--listen=%s: a server with standbys needs a port other than 0 [TD1004]; hint: choose one",
        FLAGS_listen);
  }
  return OkStatus();
}

StatusOr<ServerProcessOptions> ProcessOptionsFromFlags() {
  ServerProcessOptions options;
  TD_ASSIGN_OR_RETURN(options.server, OptionsFromFlags());
  TD_RETURN_IF_ERROR(SetMember(&options));
  if (!FLAGS_replica_of.empty()) {
    if (options.member_socket.valid()) {
      return InvalidArgument("--replica_of contradicts --member_fd [TD1005]");
    }
    const StatusOr<Endpoint> primary = ParseEndpoint(FLAGS_replica_of);
    if (!primary.ok()) return Annotate(primary.status(), "--replica_of");
    options.replica_of = *primary;
  }
  options.status_listen = FLAGS_status_listen;
  options.health_listen = FLAGS_health_listen;
  options.launcher_fifo = FromEnv("TANDEM_LAUNCHER");
  options.lease_file = FromEnv("TANDEM_LAUNCHER_LEASE");
  // Without tandemrun, nothing replaces lost trainers.
  options.server.replaces = !options.launcher_fifo.empty() && FromEnv("TANDEM_REPLACES") == "1";
  return options;
}

int Fail(const Status& status) {
  std::fputs(ErrorText("tandem-pserver", status).c_str(), stderr);
  return ExitCodeOf(status);
}

int Main(int argc, char** argv) {
  FlushDenormals();
  const ShortTimeSlice short_slice;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--help" || arg == "-h") {
      std::fputs((kUsage + OwnFlagsHelp(__FILE__)).c_str(), stdout);
      return kExitOk;
    }
    if (arg == "--version") {
      std::puts("tandem-pserver " TANDEM_VERSION);
      return kExitOk;
    }
  }
  FLAGS_logtostderr = true;
  if (Status status = SetFlags(argc, argv); !status.ok()) {
    Fail(status);
    std::fputs("help: tandem-pserver --help\n", stderr);
    return kExitUsage;
  }
  gflags::HandleCommandLineHelpFlags();  // exits the process if a flag like --helpfull is set
  LimitCoreDumps(FLAGS_core_dumps);
  google::InitGoogleLogging(argv[0]);
  rpc::InstallGrpcLog();
  RaiseFileLimit();
  if (const uint64_t most = FileLimit(); most < kFilesMin) {
    return Fail(
        ResourceExhausted("a pserver needs at least %d open files, but this process may open only "
                          "%d [TD2114]; hint: raise the limit with ulimit -n %d",
                          kFilesMin, most, kFilesMin));
  }
  StatusOr<ServerProcessOptions> options = ProcessOptionsFromFlags();
  return options.ok() ? RunServer(*std::move(options)) : Fail(options.status());
}

}  // namespace
}  // namespace tandem::pserver

int main(int argc, char** argv) {
  tandem::NameHostLimits("tandem-pserver");
  // All files, including those that RocksDB creates, contain parameters and gradients, so other
  // users must not read the files.
  umask(umask(0) | 077);
  return tandem::pserver::Main(argc, argv);
}
