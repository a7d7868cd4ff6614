#include "pserver/server_process.h"

#include <signal.h>

#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/error_text.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/http/status_page.h"
#include "common/launcher/launcher_lease.h"
#include "common/launcher/launcher_words.h"
#include "common/rpc/admissions.h"
#include "common/threads/stop_request.h"
#include "pserver/member_channel.h"
#include "pserver/replica.h"
#include "pserver/replication_status.h"
#include "pserver/server_front.h"
#include "pserver/service/status.h"
#include "pserver/standby.h"

namespace tandem::pserver {
namespace {

int Fail(const Status& status, std::optional<ExitCode> code = std::nullopt) {
  std::fputs(ErrorText("tandem-pserver", status).c_str(), stderr);
  return code ? *code : ExitCodeOf(status);
}

struct End {
  Status why;  // OK: a request to stop
  std::optional<ExitCode> code;
  bool handed_over = false;  // the standbys have all log entries of this primary
};

// Time for which a primary waits for its standbys before it hands over to one of them.
constexpr Duration kHandOverTime = std::chrono::seconds(20);

// The reason why the process must end. Only the first call of Ask has an effect; Wait blocks until
// this call.
class EndRequest {
 public:
  void Ask(const End& end) {
    std::call_once(once_, [&] { end_.set_value(end); });
  }
  End Wait() { return end_.get_future().get(); }

 private:
  std::once_flag once_;
  std::promise<End> end_;
};

// Prints a warning at each start if the configuration exposes the server to other machines.
void WarnOfExposure(const PserverOptions& options, const http::HttpServer* page) {
  if (!IsLoopback(options.rpc.listen)) {
    const char* what = !options.rpc.tls.enabled()
                           ? "without TLS; everyone with access to the network can read the data"
                       : !options.rpc.tls.mutual() && options.secret.empty()
                           ? "without tls_ca or a secret; every caller is accepted"
                           : nullptr;
    if (what != nullptr) {
      std::fprintf(stderr, "tandem-pserver: warning: listening on a network address %s\n", what);
    }
  }
  if (options.resp_listen && !IsLoopback(*options.resp_listen)) {
    std::fprintf(stderr,
                 "tandem-pserver: warning: Redis clients use a network address without TLS; "
                 "everyone with access to the network can read the data%s\n",
                 options.secret.empty() ? " and may connect" : " and the secret");
  }
  if (page != nullptr && !IsLoopback(page->endpoint())) {
    std::fprintf(stderr,
                 "tandem-pserver: warning: everyone with access to %s can read the status page\n",
                 ToString(page->endpoint()).c_str());
  }
}

void AnnounceListening(int index, const Endpoint& endpoint, const std::optional<Endpoint>& resp) {
  if (resp) {
    std::printf("tandem-pserver %d answers Redis clients on %s\n", index, ToString(*resp).c_str());
  }
  std::printf("tandem-pserver %d listening on %s\n", index, ToString(endpoint).c_str());
  std::fflush(stdout);
}

void PrintTables(const ShardInfo& info) {
  for (const TableInfo& t : info.tables) {
    std::printf(
        "table %s: %zu rows, %zu of them outside memory; %llu rows were read back into memory in "
        "%.1f s\n",
        t.variable.c_str(), t.rows, t.cold_rows, static_cast<unsigned long long>(t.fetched),
        t.read_seconds);
  }
  std::fflush(stdout);
}

// Reports unresponsive trainers to tandemrun, which kills these trainers.
void TellOfSilence(const std::string& fifo, const std::string& name, PserverOptions& options) {
  if (fifo.empty()) return;
  options.on_silent = [fifo, name](int trainer, Duration silent) {
    TellWait(fifo, {name, absl::StrFormat("caller %d", trainer), silent, silent, silent});
  };
}

// The server of this process in its present role: a replica, a standby or a primary. Thread-safe,
// except for Start and Finish.
class ServerProcess {
 public:
  explicit ServerProcess(ServerProcessOptions options)
      : options_(std::move(options)), server_(options_.server) {
    // A replica that cannot listen fails too.
    server_.on_failure = [this, replica = options_.replica_of.has_value()](const Status& why) {
      end_.Ask({why, replica ? std::nullopt : std::optional<ExitCode>(kExitStorage)});
    };
    TellOfSilence(options_.launcher_fifo, name(), server_);
  }

  EndRequest& end() { return end_; }
  Status Start();
  // Ends the server after a request of EndRequest. Returns the exit code.
  int Finish(const End& end);

 private:
  std::string name() const { return absl::StrFormat("pserver %d", server_.index); }
  Status StartReplica();
  Status StartMember();
  Status ServePages();
  void OnCommand(const MemberCommand& command, MemberChannel& channel);
  Status Follow(Standby& standby, const MemberCommand& command);
  void HandOver();
  MemberReport Report() const;
  http::StatusDocument Document() const;
  // Makes `pserver` the server, or ends the process if it is an error.
  void BecomePrimary(StatusOr<std::unique_ptr<Pserver>> pserver);
  void Announce(const Pserver& pserver);

  ServerProcessOptions options_;
  PserverOptions server_;
  EndRequest end_;
  Metrics metrics_;
  mutable Mutex mu_;
  std::shared_ptr<Standby> standby_ TD_GUARDED_BY(mu_);
  std::shared_ptr<Pserver> pserver_ TD_GUARDED_BY(mu_);
  // The primary has its initial values. Only the thread of the channel uses this field.
  mutable bool initialised_ = false;
  // Number of the kFollow that this standby obeys; 0: it follows no server. Only the thread of the
  // commands uses it.
  uint64_t following_ = 0;
  // The kBegin or kPromote that this process has obeyed. Only the thread of the commands uses it.
  std::optional<MemberCommand> appointment_;
  std::unique_ptr<Replica> replica_;  // set by Start
  std::unique_ptr<http::HttpServer> page_, health_;
  std::unique_ptr<MemberChannel> channel_;  // null: tandemrun does not choose the role
};

Status ServerProcess::Start() {
  if (options_.replica_of) return StartReplica();
  if (options_.member_socket.valid()) return StartMember();
  TD_ASSIGN_OR_RETURN(std::unique_ptr<Pserver> pserver, Pserver::Start(server_, metrics_));
  {
    MutexLock lock(mu_);
    pserver_ = std::move(pserver);
  }
  TD_RETURN_IF_ERROR(ServePages());
  MutexLock lock(mu_);
  Announce(*pserver_);
  return OkStatus();
}

Status ServerProcess::StartReplica() {
  TD_REQUIRE(options_.replica_of && !options_.member_socket.valid());
  const auto announce = [index = server_.index](const ServerFront& front) {
    AnnounceListening(index, front.endpoint(), front.resp_endpoint());
  };
  TD_ASSIGN_OR_RETURN(replica_, Replica::Start(server_, *options_.replica_of, metrics_, announce));
  std::printf("tandem-pserver %d is a replica of %s\n", server_.index,
              ToString(*options_.replica_of).c_str());
  std::fflush(stdout);
  return ServePages();
}

Status ServerProcess::StartMember() {
  TD_REQUIRE(server_.standbys > 0);
  TD_ASSIGN_OR_RETURN(std::unique_ptr<Standby> standby, Standby::Start(server_, metrics_));
  {
    MutexLock lock(mu_);
    standby_ = std::move(standby);
  }
  TD_RETURN_IF_ERROR(ServePages());
  std::printf("tandem-pserver %d started as member %d of %d\n", server_.index, server_.member,
              server_.standbys + 1);
  std::fflush(stdout);
  channel_ =
      std::make_unique<MemberChannel>(std::move(options_.member_socket),
                                      [this](const MemberCommand& command, MemberChannel& channel) {
                                        OnCommand(command, channel);
                                      });
  return OkStatus();
}

Status ServerProcess::ServePages() {
  const bool insecure = server_.rpc.insecure_allow_network;
  const auto document = [this] { return Document(); };
  auto page = http::ServeStatus(options_.status_listen, insecure, document, metrics_);
  if (!page.ok()) return Annotate(page.status(), "--status_listen");
  page_ = *std::move(page);
  auto health = http::ServeHealth(options_.health_listen, insecure, document);
  if (!health.ok()) return Annotate(health.status(), "--health_listen");
  health_ = *std::move(health);
  WarnOfExposure(server_, page_.get());
  if (page_ != nullptr) {
    std::printf("tandem-pserver %d status page http://%s/\n", server_.index,
                ToString(page_->endpoint()).c_str());
  }
  if (health_ != nullptr) {
    std::printf("tandem-pserver %d probes at http://%s/healthz\n", server_.index,
                ToString(health_->endpoint()).c_str());
  }
  std::printf(
      "tandem-pserver %d accepts at most %zu connections, half of its limit of open files\n",
      server_.index, rpc::LimitsForThisProcess().connections_max);
  return OkStatus();
}

http::StatusDocument ServerProcess::Document() const {
  std::shared_ptr<Standby> standby;
  std::shared_ptr<Pserver> pserver;
  {
    MutexLock lock(mu_);
    standby = standby_;
    pserver = pserver_;
  }
  if (replica_ != nullptr) {
    return StatusOfReplica(server_, replica_->progress(), replica_->endpoint().has_value());
  }
  if (standby != nullptr) return StatusOfStandby(server_, standby->progress());
  if (pserver == nullptr) return {};
  http::StatusDocument document =
      StatusOf(pserver->Info(), server_.index, pserver->StorageStatus());
  if (server_.standbys != 0) AddStandbys(pserver->term(), pserver->standbys(), &document);
  return document;
}

// ---- Commands of tandemrun ----------------------------------------------------------------------

void ServerProcess::OnCommand(const MemberCommand& command, MemberChannel& channel) {
  using Kind = MemberCommand::Kind;
  std::shared_ptr<Standby> standby;
  {
    MutexLock lock(mu_);
    standby = standby_;
  }
  if (command.kind == Kind::kHold && standby != nullptr) {
    standby->Hold();
    following_ = 0;
  }
  if (command.kind == Kind::kReport || command.kind == Kind::kHold) {
    MemberReport report = Report();
    report.number = command.number;
    return channel.Send(report);
  }
  if (command.kind == Kind::kRefuse) {
    return end_.Ask({FailedPrecondition("%s", command.text), std::nullopt});
  }
  if (command.kind == Kind::kHandOver) return HandOver();
  if (command == appointment_) return;
  if (standby == nullptr) {
    return end_.Ask({FailedPrecondition("this process is the primary already"), std::nullopt});
  }
  if (command.kind == Kind::kFollow) {
    const Status status = Follow(*standby, command);
    if (!status.ok()) end_.Ask({status, std::nullopt});
    return;
  }
  appointment_ = command;
  BecomePrimary(command.kind == Kind::kBegin ? standby->Begin() : standby->Promote(command.number));
  MemberReport report = Report();
  if (report.primary) channel.Send(report);
}

Status ServerProcess::Follow(Standby& standby, const MemberCommand& command) {
  TD_REQUIRE(command.kind == MemberCommand::Kind::kFollow);
  TD_ASSIGN_OR_RETURN(const Endpoint primary, ParseEndpoint(command.text));
  LOG(INFO) << "following the primary at " << command.text;
  TD_RETURN_IF_ERROR(standby.Follow(primary, command.number));
  following_ = command.number;
  return OkStatus();
}

void ServerProcess::HandOver() {
  std::shared_ptr<Pserver> pserver;
  {
    MutexLock lock(mu_);
    pserver = pserver_;
  }
  if (pserver == nullptr) return;  // this member is not the primary
  const Status status = pserver->HandOver(SteadyNow() + kHandOverTime);
  LOG_IF(WARNING, !status.ok()) << "the standbys do not have all log entries: " << ToString(status);
  // tandemrun starts the process again after this exit code, and chooses the latest member.
  end_.Ask({status, kExitStorage, /*handed_over=*/status.ok()});
}

MemberReport ServerProcess::Report() const {
  MutexLock lock(mu_);
  MemberReport report;
  LogTerm term;
  if (standby_ != nullptr) {
    const StandbyState::Position position = standby_->progress().position;
    term = position.term;
    // A dropped state makes tandemrun refuse to begin without it.
    report.has_state = position.has_state || position.dropped;
    report.complete =
        position.has_state && (position.complete || server_.replication == Replication::kAsync);
    report.last = position.last;
    report.following = following_;
  } else if (pserver_ != nullptr) {
    report.primary = true;
    // Does not wait for the lock of the shard once the answer is known.
    if (!initialised_) initialised_ = pserver_->Info().initialised;
    report.has_state = report.complete = initialised_;
    term = pserver_->term();
  }
  report.history = term.history;
  report.term = term.number;
  report.start = term.start;
  return report;
}

void ServerProcess::BecomePrimary(StatusOr<std::unique_ptr<Pserver>> pserver) {
  // tandemrun restarts the process after this exit code, and chooses again.
  if (!pserver.ok()) return end_.Ask({pserver.status(), kExitStorage});
  std::shared_ptr<Standby> ended;  // destroyed after the lock is released
  MutexLock lock(mu_);
  ended = std::move(standby_);
  pserver_ = *std::move(pserver);
  Announce(*pserver_);
}

void ServerProcess::Announce(const Pserver& pserver) {
  AnnounceListening(server_.index, pserver.endpoint(), pserver.resp_endpoint());
  if (server_.place != "cpu") {
    std::printf("tandem-pserver %d stores slices on %s\n", server_.index, server_.place.c_str());
  }
  if (pserver.restored_version() != 0) {
    std::printf("tandem-pserver %d restored version %llu\n", server_.index,
                static_cast<unsigned long long>(pserver.restored_version()));
  }
  std::fflush(stdout);
  if (!options_.launcher_fifo.empty()) TellHere(options_.launcher_fifo, name());
}

// ---- Shutdown of the process --------------------------------------------------------------------

int ServerProcess::Finish(const End& end) {
  channel_.reset();  // the role does not change from now on
  std::shared_ptr<Pserver> pserver;
  {
    MutexLock lock(mu_);
    pserver = pserver_;
  }
  if (end.handed_over) {
    pserver->GiveUp(SteadyNow() + std::chrono::seconds(1));
    std::printf("tandem-pserver %d hands over to a standby at version %llu\n", server_.index,
                static_cast<unsigned long long>(pserver->Info().version));
    std::fflush(stdout);
    return *end.code;
  }
  if (!end.why.ok()) {
    if (pserver != nullptr) pserver->GiveUp(SteadyNow() + std::chrono::seconds(1));
    return Fail(end.why, end.code);
  }
  if (replica_ != nullptr) {
    std::printf("tandem-pserver %d ends as a replica at log entry %llu\n", server_.index,
                static_cast<unsigned long long>(replica_->progress().position.last));
    std::fflush(stdout);
    return kExitOk;
  }
  if (pserver == nullptr) {
    std::printf("tandem-pserver %d ends as a standby at log entry %llu\n", server_.index,
                static_cast<unsigned long long>(Report().last));
    std::fflush(stdout);
    return kExitOk;
  }
  if (server_.table_memory_bytes != 0) PrintTables(pserver->Info());
  const Status drained = pserver->Drain(SteadyNow() + std::chrono::seconds(5));
  const ShardInfo info = pserver->Info();
  std::printf("tandem-pserver %d ends at version %llu; repeated pushes: %llu\n", server_.index,
              static_cast<unsigned long long>(info.version),
              static_cast<unsigned long long>(info.repeated_pushes));
  std::fflush(stdout);
  return drained.ok() ? kExitOk : Fail(Annotate(drained, "last checkpoint"));
}

}  // namespace

int RunServer(ServerProcessOptions options) {
  BlockStopSignals();
  signal(SIGPIPE, SIG_IGN);
  const auto lease = EndWithLease(options.lease_file, "tandem-pserver");
  ServerProcess process(std::move(options));
  const StopRequests requests([&process](int) { process.end().Ask({}); }, EndBySignal);
  if (const Status started = process.Start(); !started.ok()) return Fail(started);
  return process.Finish(process.end().Wait());
}

}  // namespace tandem::pserver
