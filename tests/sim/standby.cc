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
    : life_(life),
      node_(node),
      process_(std::make_shared<SimProcess>(life.world, node)),
      state_(life, life.options.job, [this] { StopServing(); }) {}

SimStandby::~SimStandby() = default;

Status SimStandby::AwaitLogged() {
  const auto written = std::make_shared<OneCall>(OneCall{process_->MakeEvent(), false, {}, {}});
  life_.durable().log()->WhenLogged([written](const Status& status) { written->End(status); });
  if (!written->ended->WaitUntil(life_.world.Now() + hours(1))) return Cancelled("killed");
  return written->status;
}

void SimStandby::StopServing() {
  history_.Forget();
  listens_ = false;
}

void SimStandby::OnStep() {
  if (!life_.options.group.replica) return;
  if (progress_.position.has_state) {
    history_.OnStep(progress_.position.term, progress_.position.last);
  }
  if (progress_.current != Time()) listens_ = true;
}

// ---- Following ----------------------------------------------------------------------------------

void SimStandby::Start() { progress_.position = state_.position(); }

void SimStandby::Follow(int primary) {
  CHECK(ended_);
  primary_ = primary;
  stop_ = ended_ = false;
  process_ = std::make_shared<SimProcess>(life_.world, node_);
  process_->Start([this, weak = life_.weak_from_this()] {
    if (const auto life = weak.lock()) Run();
  });
}

void SimStandby::Run() {
  LogFetcher fetcher({.job = life_.options.job,
                      .member = life_.options.group.member,
                      .incarnation = life_.number,
                      .replica = life_.options.group.replica},
                     state_, *this);
  while (!stop_ && !process_->dead()) {
    const auto next = fetcher.FetchOnce();
    progress_.OnEnd(state_.position(), next.status());
    if (!stop_) OnStep();
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
  if (ended_) return;
  if (!process_->running()) return process_->Kill();
  // The life may be ending already. Then the process alone remains until the event.
  life_.world.After(Duration::zero(), [life = life_.weak_from_this().lock(), process = process_] {
    process->Kill();
  });
}

Status SimStandby::FetchLog(const FetchLogRequest& request, Duration timeout,
                            FetchLogReply* reply) {
  TD_RETURN_IF_ERROR(Call(rpc::PserverCall::kFetchLog, request, timeout, reply));
  progress_.OnReply(reply->last(), life_.world.Now());
  return OkStatus();
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
  const SimMemberOptions& group = life_.options.group;
  SimServer* const to = primary_ >= 0 ? group.primary(primary_) : group.address->Listener();
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
