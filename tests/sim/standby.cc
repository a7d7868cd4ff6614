#include "tests/sim/standby.h"

#include <utility>

#include "google/protobuf/message.h"
#include "proto/pserver.pb.h"
#include "tests/sim/network.h"
#include "tests/sim/server_life.h"

namespace tandem::pserver {

using std::chrono::hours;
using std::chrono::milliseconds;

// A call to the primary, or a pause.
struct SimStandby::OneCall {
  void End(const Status& s, std::string bytes = "") {
    if (std::exchange(done, true)) return;
    status = s;
    reply = std::move(bytes);
    ended->Set();
  }
  std::unique_ptr<ps::PsEvent> ended;
  bool done = false;
  Status status;
  std::string reply;
};

SimStandby::SimStandby(SimServer::Life& life, int node)
    : life_(life), process_(std::make_shared<SimProcess>(life.world, node)) {}

SimStandby::~SimStandby() = default;

// ---- The state ----------------------------------------------------------------------------------

Status SimStandby::Recover() {
  const StatusOr<uint64_t> version = life_.durable->Recover();
  TD_ASSIGN_OR_RETURN(position_.term, life_.storage->files()->Term());
  TD_ASSIGN_OR_RETURN(position_.complete, life_.storage->files()->Complete());
  if (version.ok()) {
    position_.has_state = life_.durable->shard().Info().initialised;
    position_.last = life_.durable->log()->written();
    return OkStatus();
  }
  if (version.status().code() != StatusCode::kDataLoss) return version.status();
  position_.has_state = false;
  position_.last = 0;
  life_.MakeEmptyShard();
  return OkStatus();
}

Status SimStandby::Append(std::vector<LogEntry> entries) {
  TD_REQUIRE(!entries.empty() && entries.front().number == position_.last + 1);
  GroupCommitLog& log = *life_.durable->log();
  uint64_t bytes = 0;
  for (const LogEntry& entry : entries) bytes += ValueBytes(entry);
  TD_RETURN_IF_ERROR(log.Ready(bytes));
  for (const LogEntry& entry : entries) log.Append(entry);
  const auto written = std::make_shared<OneCall>(OneCall{process_->MakeEvent(), false, {}, {}});
  log.WhenLogged([written](const Status& status) { written->End(status); });
  if (!written->ended->WaitUntil(life_.world.Now() + hours(1))) return Cancelled("killed");
  if (!written->status.ok()) {
    position_.has_state = false;
    return written->status;
  }
  position_.last = entries.back().number;
  for (LogEntry& entry : entries) {
    Status applied = life_.durable->shard().checkpoints().Replay(std::move(entry));
    if (applied.ok()) continue;
    position_.has_state = false;
    return applied;
  }
  return OkStatus();
}

Status SimStandby::SetTerm(const LogTerm& term) {
  TD_REQUIRE(position_.has_state);
  TD_RETURN_IF_ERROR(life_.storage->files()->SetTerm(term));
  position_.term = term;
  return OkStatus();
}

Status SimStandby::SetComplete() {
  TD_RETURN_IF_ERROR(life_.storage->files()->SetComplete());
  position_.complete = true;
  return OkStatus();
}

StatusOr<std::string> SimStandby::NewValuesFile() {
  return life_.storage->files()->NewValuesFile();
}

Status SimStandby::Install(const std::string& record, const std::string& path,
                           const LogTerm& term) {
  position_.has_state = false;
  life_.MakeEmptyShard();
  TD_RETURN_IF_ERROR(life_.storage->files()->InstallCheckpoint(record, path, term));
  return Recover();
}

Status SimStandby::Promote(uint64_t term) {
  const Position& p = position_;
  if (!p.has_state) return FailedPrecondition("this standby has no state");
  if (!p.complete) return FailedPrecondition("this standby lacks entries after its checkpoint");
  if (term <= p.term.number) return FailedPrecondition("the term %d is not higher", term);
  life_.durable->shard().checkpoints().HearAllTrainers();
  std::optional<LogSource::Predecessor> predecessor;
  if (p.term.history != 0) predecessor = {p.term, p.last};
  return life_.BeginReplication({p.term.history, term, 0}, predecessor);
}

Status SimStandby::Begin() {
  if (position_.has_state) return FailedPrecondition("this standby has a state");
  return life_.ResumeReplication();
}

// ---- Following ----------------------------------------------------------------------------------

void SimStandby::Start() {
  reported_ = position_;
  started_ = true;
  process_->Start([this, weak = life_.weak_from_this()] {
    if (const auto life = weak.lock()) Follow();
  });
}

void SimStandby::Follow() {
  LogFetcher fetcher(
      {.job = life_.options.job, .member = life_.options.group.member, .incarnation = life_.number},
      *this, *this);
  while (!stop_ && !process_->dead()) {
    const auto next = fetcher.FetchOnce();
    reported_ = position_;
    if (!next.ok()) life_.world.Note("follows not", static_cast<uint64_t>(process_->node()));
    if (!next.ok() || *next == LogFetcher::Next::kPause) Rest();
  }
  ended_ = true;
  if (then_) life_.After(Duration::zero(), std::move(then_));
}

void SimStandby::Rest() {
  if (stop_) return;
  call_ = std::make_shared<OneCall>(OneCall{process_->MakeEvent(), false, {}, {}});
  (void)call_->ended->WaitUntil(life_.world.Now() + milliseconds(100));
  call_ = nullptr;
}

void SimStandby::Stop(std::function<void()> then) {
  stop_ = true;
  if (ended_) return life_.After(Duration::zero(), std::move(then));
  then_ = std::move(then);
  if (call_ != nullptr) call_->End(Cancelled("the standby stops"));
}

// Kills the process of the standby. If the fiber of this process itself has made the call (it is
// running), an event kills the process later, because a fiber cannot be ended while it runs.
void SimStandby::Kill() {
  stop_ = true;
  if (!started_) return;
  if (!process_->running()) return process_->Kill();
  life_.world.After(Duration::zero(),
                    [life = life_.shared_from_this(), process = process_] { process->Kill(); });
}

Status SimStandby::FetchLog(const FetchLogRequest& request, Duration timeout,
                            FetchLogReply* reply) {
  return Call(rpc::PserverCall::kFetchLog, request, timeout, reply);
}

Status SimStandby::FetchCheckpoint(const FetchCheckpointRequest& request, Duration timeout,
                                   FetchCheckpointReply* reply) {
  return Call(rpc::PserverCall::kFetchCheckpoint, request, timeout, reply);
}

Status SimStandby::Call(rpc::PserverCall call, const google::protobuf::Message& request,
                        Duration timeout, google::protobuf::Message* reply) {
  if (stop_) return Cancelled("the standby stops");
  SimWorld& world = life_.world;
  SimNetwork& network = *life_.options.group.network;
  const auto one = std::make_shared<OneCall>(OneCall{process_->MakeEvent(), false, {}, {}});
  const auto break_off = [process = process_, one] {
    process->After(process->world().Between(milliseconds(1), milliseconds(400)),
                   [one] { one->End(Unavailable("the connection was lost")); });
  };
  SimServer* const to = life_.options.group.address->Listener();
  const int node = process_->node();
  if (to == nullptr) {
    break_off();
  } else {
    const auto back = [&network, node, from = to->node(), one, break_off, process = process_](
                          const Status& status, const std::string& bytes) {
      const bool carried = network.Carry(from, node, [one, process, status, bytes] {
        process->Post([one, status, bytes] { one->End(status, bytes); });
      });
      if (!carried) break_off();
    };
    const uint64_t life = to->lives();
    const bool carried =
        network.Carry(node, to->node(),
                      [to, life, call, one, break_off, back, bytes = request.SerializeAsString()] {
                        if (!to->alive() || to->lives() != life) return break_off();
                        to->OnDeath(break_off);
                        to->Handle(call, bytes, back);
                      });
    if (!carried) break_off();
  }
  call_ = one;
  const bool in_time = one->ended->WaitUntil(world.Now() + timeout);
  call_ = nullptr;
  if (!in_time) return DeadlineExceeded("no reply of the primary in time");
  TD_RETURN_IF_ERROR(one->status);
  if (!reply->ParseFromString(one->reply)) return DataLoss("a damaged reply");
  return OkStatus();
}

}  // namespace tandem::pserver
