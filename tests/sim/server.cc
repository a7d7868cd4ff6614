#include "tests/sim/server.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/migration_calls.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/service/move_calls.h"
#include "pserver/service/plain_calls.h"
#include "pserver/service/replication_calls.h"
#include "pserver/service/snapshot_calls.h"
#include "pserver/wire/proto_convert.h"
#include "tests/sim/bytes.h"
#include "tests/sim/server_life.h"

namespace tandem::pserver {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

SimServer::SimServer(int index, SimServerOptions options, SimWorld& world)
    : index_(index),
      options_(std::move(options)),
      world_(world),
      disk_(world, options_.forget_previous, options_.checkpoints) {}

SimServer::~SimServer() {
  if (alive()) Kill(false);
}

Shard& SimServer::shard() { return life_->durable().shard(); }

Status SimServer::Restore(uint64_t snapshot) { return life_->durable().Restore(snapshot).status(); }

Status SimServer::Start() {
  CHECK(!alive());
  // Incarnation numbers of servers are unique, even among different servers.
  const uint64_t number = static_cast<uint64_t>(index_ + 1) * 1'000'000 +
                          static_cast<uint64_t>(options_.group.member) * 100'000 + ++lives_;
  life_ = std::make_shared<Life>(index_, number, options_, world_, disk_);
  if (follows()) return StartMember();
  const StatusOr<uint64_t> version = life_->durable().Recover();
  world_.Note("server up", static_cast<uint64_t>(index_), version.ok() ? *version : UINT64_MAX);
  if (version.ok() && life_->source != nullptr) TD_RETURN_IF_ERROR(life_->ResumeReplication());
  const bool whole = version.ok() && shard().checkpoints().missing_pushes() == 0;
  if (whole && *version < told_ && !restored_) {
    return DataLoss("server %d comes back with version %d, and had told of version %d", index_,
                    *version, told_);
  }
  return Annotate(version.status(), absl::StrFormat("server %d comes back", index_));
}

Status SimServer::StartMember() {
  life_->standby = std::make_unique<SimStandby>(*life_, node());
  TD_RETURN_IF_ERROR(life_->standby->Recover());
  const StandbyState::Position found = life_->standby->position();
  world_.Note("member up", static_cast<uint64_t>(node()),
              found.has_state ? found.last : UINT64_MAX);
  life_->standby->Start();
  if (options_.group.replica) life_->standby->Follow();
  return OkStatus();
}

void SimServer::Kill(bool power) {
  world_.Note(power ? "server loses power" : "server killed", static_cast<uint64_t>(index_));
  disk_.Revoke();
  if (power) {
    disk_.LosePower();
    // Without wal_sync=always, versions that trainers have received may be lost.
    if (options_.wal_sync != WalSync::kAlways) told_ = 0;
  }
  *life_->dead = true;
  if (life_->standby != nullptr) life_->standby->Kill();
  // The code of the process may be on the stack now, so a later event destroys the object.
  world_.After(Duration::zero(), [life = std::move(life_)] {});
  life_ = nullptr;
  for (auto& told : std::exchange(mourners_, {})) told();
}

// ---- Members of a server with standbys ----------------------------------------------------------

void SimServer::LoseDisk() {
  world_.Note("disk lost", static_cast<uint64_t>(node()));
  if (alive()) Kill(false);
  disk_.Clear();
  told_ = 0;
}

void SimServer::Pause() {
  life_->Pause();
  if (life_->standby != nullptr) life_->standby->Pause();
}

void SimServer::Continue() {
  life_->Continue();
  if (life_->standby != nullptr) life_->standby->Continue();
}

bool SimServer::paused() const { return alive() && life_->paused; }

SimServer* SimServer::Listener() {
  if (!alive() || (options_.group.replica && !life_->standby->listens())) return nullptr;
  return this;
}

void SimServer::JumpClock(Duration by) {
  world_.Note("clock jumps", static_cast<uint64_t>(node()), static_cast<uint64_t>(by.count()));
  life_->clock.Jump(by);
  life_->After(Duration::zero(), [life = life_.get()] { life->deadlines.Look(); });
}

bool SimServer::serves() const { return alive() && life_->standby == nullptr; }

bool SimServer::complete() const {
  if (life_->standby == nullptr) return true;
  const StandbyState::Position position = life_->standby->position();
  return position.has_state && position.complete;
}

LogTerm SimServer::log_term() const {
  if (!alive() || life_->source == nullptr) return {};
  return life_->standby != nullptr ? life_->standby->reported().term : life_->source->term();
}

LogSource* SimServer::source() { return alive() ? life_->source.get() : nullptr; }

uint64_t SimServer::last() const {
  return life_->standby == nullptr ? stored() : life_->standby->position().last;
}

uint64_t SimServer::stored() const { return life_->durable().log()->written(); }

int SimServer::node() const { return kFirstMemberNode + 10 * index_ + options_.group.member; }

MemberReport SimServer::Report() const {
  MemberReport report;
  LogTerm term;
  if (life_->standby != nullptr) {
    const StandbyState::Position position = life_->standby->reported();
    term = position.term;
    report.has_state = position.has_state;
    report.complete =
        position.has_state && (position.complete || options_.replication == Replication::kAsync);
    report.last = position.last;
    report.following = life_->following;
  } else {
    report.primary = true;
    report.has_state = report.complete = life_->durable().shard().Info().initialised;
    term = life_->source->term();
  }
  report.history = term.history;
  report.term = term.number;
  report.start = term.start;
  return report;
}

void SimServer::OnCommand(const MemberCommand& command, const SendReport& send, const Ended& end) {
  using Kind = MemberCommand::Kind;
  Life* const life = life_.get();
  const auto again = [this, command, send, end] { OnCommand(command, send, end); };
  if (life->paused) return life->held.push_back(again);
  if (life->changes_role) return life->commands.push_back(again);
  const auto report = [this, command, send] {
    MemberReport state = Report();
    state.number = command.number;
    send(state);
  };
  const bool holds = command.kind == Kind::kHold && life->standby != nullptr;
  if (command.kind == Kind::kReport || (command.kind == Kind::kHold && !holds)) return report();
  if (command.kind == Kind::kRefuse) return end(FailedPrecondition("%s", command.text));
  if (command == life->appointment) return;
  if (life->standby == nullptr)
    return end(FailedPrecondition("the process is the primary already"));
  const auto changed = [life] {
    life->changes_role = false;
    for (auto& next : std::exchange(life->commands, {})) life->After(Duration::zero(), next);
  };
  life->changes_role = true;
  if (holds || command.kind == Kind::kFollow) {
    return life->standby->Stop([life, command, report, changed] {
      if (*life->dead) return;
      life->following = command.kind == Kind::kFollow ? command.number : 0;
      if (command.kind == Kind::kHold) report();
      if (command.kind == Kind::kFollow) life->standby->Follow(std::stoi(command.text));
      changed();
    });
  }
  life->appointment = command;
  life->standby->Stop([this, life, command, send, end, changed] {
    const Status status = command.kind == Kind::kBegin
                              ? life->standby->Begin()
                              : life->standby->Promote(command.number, options_.replication);
    if (*life->dead) return;
    if (!status.ok()) return end(status);
    life->standby = nullptr;
    send(Report());
    changed();
  });
}

void SimServer::HandleStandby(rpc::PserverCall call, const std::string& request, Answer answer) {
  const std::shared_ptr<Life> life = life_;
  const auto reply = [dead = life->dead, answer = std::move(answer)](const Status& status,
                                                                     const std::string& bytes) {
    if (!*dead) answer(status, bytes);
  };
  if (call == rpc::PserverCall::kFetchLog) {
    FetchLogRequest r;
    CHECK(r.ParseFromString(request));
    const Time end = world_.Now() + milliseconds(r.wait_ms());
    r.set_wait_ms(0);
    return life->FetchEntries(r, end, reply);
  }
  FetchCheckpointRequest r;
  CHECK(r.ParseFromString(request));
  life->FetchCheckpoint(r, world_.Now() + seconds(10), reply);
}

// ---- Calls --------------------------------------------------------------------------------------

// In sync mode a trainer may request the previous version, so the version in replies may decrease.
bool SimServer::Grows() { return !restored_ && shard().Info().config.mode == UpdatePolicy::kASync; }

void SimServer::Handle(rpc::PserverCall call, const std::string& request, Answer answer) {
  // Holds a reference to the process, because the call may kill the process.
  const std::shared_ptr<Life> life = life_;
  if (life->paused) {
    return life->held.push_back([this, call, request, answer = std::move(answer)]() mutable {
      Handle(call, request, std::move(answer));
    });
  }
  if (call == rpc::PserverCall::kFetchLog || call == rpc::PserverCall::kFetchCheckpoint) {
    return HandleStandby(call, request, std::move(answer));
  }
  if (options_.group.replica && call != rpc::PserverCall::kFetchChanges) {
    return answer(FailedPrecondition("a replica does not answer %s", rpc::NameOf(call)), {});
  }
  Shard& shard = life->durable().shard();
  const std::span<const std::byte> piece = std::as_bytes(std::span(request));
  const codec::Fragments bytes(&piece, 1);
  // Sends the reply, unless the process is dead.
  const auto reply = [dead = life->dead, answer = std::move(answer)](
                         const Status& status, const codec::EncodedMessage& message) {
    if (!*dead) answer(status, Flat(message));
  };
  const auto written = [&shard, &reply](const Status& status, codec::EncodedMessage message) {
    shard.WhenLogged([reply, status, message = std::move(message)](const Status& w) {
      reply(status.ok() ? w : status, message);
    });
  };
  const auto tell = [this, call, dead = life->dead, reply](const Status& status,
                                                           const codec::EncodedMessage& message,
                                                           const auto& decode) {
    const std::string answer = Flat(message);
    const std::span<const std::byte> whole = std::as_bytes(std::span(answer));
    if (status.ok() && !*dead) {
      const uint64_t version = decode(codec::Fragments(&whole, 1))->version;
      if (version < told_ && call == rpc::PserverCall::kPull && Grows()) {
        wrong_ = absl::StrFormat("server %d tells version %d behind %d", index_, version, told_);
      }
      told_ = std::max(told_, version);
    }
    reply(status, message);
  };
  if (call == rpc::PserverCall::kPush) {
    if (options_.replayable) disk_.Sent(request);
    return life->calls->Push(bytes,
                             [tell](const Status& status, const codec::EncodedMessage& message) {
                               tell(status, message, codec::DecodePushReply);
                             });
  }
  if (call == rpc::PserverCall::kPull) {
    return life->calls->Pull(bytes,
                             [tell](const Status& status, const codec::EncodedMessage& message) {
                               tell(status, message, codec::DecodePullReply);
                             });
  }
  const auto plain = [&]<typename Request, typename Reply>(Request r, Reply out,
                                                           const auto& handle) -> void {
    Status status = rpc::ParseMessage(bytes, &r);
    if (status.ok()) status = handle(r, &out);
    written(status, rpc::EncodedProto(out));
  };
  if (call == rpc::PserverCall::kInitParams) {
    return plain(InitParamsRequest(), InitParamsReply(),
                 [&](const auto& r, auto* out) { return InitShard(r, shard, out); });
  }
  if (call == rpc::PserverCall::kFetchChanges) {
    FetchChangesRequest r;
    if (const Status status = rpc::ParseMessage(bytes, &r); !status.ok()) return reply(status, {});
    return life->PollChanges(r, life->deadlines.After(r.wait_ms()),
                             [reply](const Status& status, const FetchChangesReply& out) {
                               reply(status, rpc::EncodedProto(out));
                             });
  }
  if (call == rpc::PserverCall::kGetStatus) {
    StatusReply out;
    FillStatus(shard.Info(), &out);
    const auto cuts = life->durable().GlobalSnapshots();
    for (const StoredGlobalSnapshot& cut :
         cuts.ok() ? *cuts : std::vector<StoredGlobalSnapshot>()) {
      out.add_cut(cut.number);
      out.add_cut_version(cut.version);
    }
    return reply(cuts.status(), rpc::EncodedProto(out));
  }
  if (call == rpc::PserverCall::kRestoreCheckpoint) {
    RestoreCheckpointRequest r;
    Status status = rpc::ParseMessage(bytes, &r);
    RestoreCheckpointReply out;
    if (status.ok()) {
      restored_ = true;
      const StatusOr<uint64_t> version = life->durable().Restore(r.cut());
      if (version.ok()) out.set_version(*version);
      status = version.status();
    }
    return written(status, rpc::EncodedProto(out));
  }
  if (call == rpc::PserverCall::kComplete) {
    CompleteRequest r;
    Status status = rpc::ParseMessage(bytes, &r);
    if (status.ok()) status = shard.Complete(CallerOf(r), NumbersOf(r)).status();
    if (!status.ok()) return written(status, {});
    return life->durable().WhenSafeToLeave(
        [reply](const Status& w) { reply(w, rpc::EncodedProto(CompleteReply())); });
  }
  if (call == rpc::PserverCall::kSaveCheckpoint) {
    return plain(SaveCheckpointRequest(), SaveCheckpointReply(), [&](const auto& r, auto* out) {
      const auto saved = life->durable().Save(false, r.unless_kept());
      if (saved.ok()) out->set_version(saved->version);
      out->set_kept_number(shard.checkpoints().stored_number());
      return saved.status();
    });
  }
  const auto kept = [&]<typename Request, typename Reply>(Request r, Reply out,
                                                          const auto& handle) -> void {
    Status status = rpc::ParseMessage(bytes, &r);
    if (status.ok()) status = handle(r, &out);
    if (!status.ok()) return reply(status, {});
    life->durable().WhenDurable(
        [reply, message = rpc::EncodedProto(out)](const Status& w) { reply(w, message); });
  };
  if (call == rpc::PserverCall::kExchangeMap) {
    return kept(ExchangeMapRequest(), ExchangeMapReply(),
                [&](const auto& r, auto* out) { return ExchangeMap(r, shard, out); });
  }
  if (call == rpc::PserverCall::kConfigure) {
    return kept(ConfigureRequest(), ConfigureReply(),
                [&](const auto& r, auto* out) { return ConfigureShard(r, shard, out); });
  }
  if (call == rpc::PserverCall::kFreezeBuckets) {
    return kept(FreezeBucketsRequest(), FreezeBucketsReply(),
                [&](const auto& r, auto* out) { return FreezeBuckets(r, shard, out); });
  }
  if (call == rpc::PserverCall::kOfferBuckets) {
    return kept(OfferBucketsRequest(), OfferBucketsReply(),
                [&](const auto& r, auto*) { return OfferBuckets(r, shard); });
  }
  if (call == rpc::PserverCall::kRefuseBuckets) {
    return kept(RefuseBucketsRequest(), RefuseBucketsReply(), [&](const auto& r, auto*) {
      return shard.migrations().Refuse(r.job(), r.refuse());
    });
  }
  if (call == rpc::PserverCall::kReleaseBuckets) {
    return kept(ReleaseBucketsRequest(), ReleaseBucketsReply(),
                [&](const auto& r, auto* out) { return ReleaseBuckets(r, shard, out); });
  }
  if (call == rpc::PserverCall::kHoldPushes) {
    return kept(HoldPushesRequest(), HoldPushesReply(),
                [&](const auto& r, auto* out) { return HoldPushes(r, life->durable(), out); });
  }
  if (call == rpc::PserverCall::kTakeSnapshot) {
    TakeCutRequest r;
    if (const Status status = rpc::ParseMessage(bytes, &r); !status.ok()) return reply(status, {});
    const auto out = std::make_shared<TakeCutReply>();
    TakeSnapshot(r, life->durable(), out.get(),
                 [reply, out](const Status& status) { reply(status, rpc::EncodedProto(*out)); });
    return life->deadlines.Look();
  }
  if (call == rpc::PserverCall::kWaitInit) {
    WaitInitRequest r;
    if (const Status status = rpc::ParseMessage(bytes, &r); !status.ok()) return reply(status, {});
    shard.WaitInit(CallerOf(r), life->deadlines.After(r.timeout_ms()),
                   [reply](const StatusOr<uint64_t>& version) {
                     WaitInitReply out;
                     if (version.ok()) out.set_version(*version);
                     reply(version.status(), rpc::EncodedProto(out));
                   });
    return life->deadlines.Look();
  }
  reply(Unimplemented("the simulator has no call %s", rpc::NameOf(call)), {});
}

}  // namespace tandem::pserver
