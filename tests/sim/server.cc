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
#include "pserver/service/snapshot_calls.h"
#include "pserver/wire/proto_convert.h"
#include "tests/sim/bytes.h"

namespace tandem::pserver {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// One process of a server. Scheduled events hold a reference to the process, but have no effect if
// it is dead.
struct SimServer::Life : std::enable_shared_from_this<Life> {
  Life(int index, uint64_t number, const SimServerOptions& options, SimWorld& w, SimDisk& disk)
      : world(w), name(static_cast<uint64_t>(index)), storage(disk.Open()), deadlines(*this) {
    DurableShard::Options made;
    made.shard.server_incarnation = number;
    made.shard.index = index;
    made.shard.job = options.job;
    made.shard.trainers = options.trainers;
    made.shard.checkpoint_every_steps = options.checkpoint_every_steps;
    made.shard.replayable = options.replayable;
    made.shard.keep_bytes_max = options.keep_bytes_max;
    made.logged = true;
    made.log = {options.wal_sync, kSimSyncInterval, options.log_bytes_max, nullptr,
                [this] { TurnLog(); }};
    made.later = [this](std::function<void()> work) { return SaveLater(std::move(work)); };
    durable = std::make_unique<DurableShard>(std::move(made), storage.get(), world.clock(), backend,
                                             device, metrics);
    calls = std::make_unique<TensorCalls>(number, durable->shard(), deadlines);
  }

  // Runs `what` after `pause`, as a thread of the process would. Does nothing if the process has
  // died.
  void After(Duration pause, std::function<void()> what) {
    world.After(pause, [self = shared_from_this(), what = std::move(what)] {
      if (!*self->dead) what();
    });
  }
  void TurnLog() {
    const Time next = durable->log()->NextTurn();
    if (turn_due <= next || next == Time::max()) return;
    turn_due = std::max(next, world.Now());
    After(turn_due - world.Now() + world.Between(microseconds(10), microseconds(2000)), [this] {
      turn_due = Time::max();
      if (durable->log()->NextTurn() <= world.Now()) durable->log()->Turn();
      if (!*dead) TurnLog();
    });
  }
  // Runs `work`, a save, later, as a separate thread would. At most two saves may be queued,
  // including the running one. RESOURCE_EXHAUSTED: two saves are queued.
  Status SaveLater(std::function<void()> work) {
    if (saves.size() >= 2) return ResourceExhausted("the saver is busy");
    saves.push_back(std::move(work));
    if (saves.size() == 1) SaveNext();
    return OkStatus();
  }
  void SaveNext() {
    After(world.Between(milliseconds(1), milliseconds(40)), [this] {
      saves.front()();
      if (*dead) return;
      saves.pop_front();
      if (!saves.empty()) SaveNext();
    });
  }

  struct EventDeadlines final : Deadlines {
    explicit EventDeadlines(Life& l) : Deadlines(l.world.clock()), life(l) {}
    void Poke(Time /*deadline*/) override { Look(); }
    // Expires waiting calls at their deadlines. While calls wait, checks the deadlines at least
    // every 500 ms, like pserver/service/deadline_driver.h.
    void Look() {
      const Time next = life.durable->shard().NextDeadline();
      if (looking || next == Time::max()) return;
      looking = true;
      const Duration left = std::max(next - life.world.Now(), Duration::zero());
      life.After(std::min<Duration>(left, milliseconds(500)), [this] {
        looking = false;
        Shard& shard = life.durable->shard();
        if (life.world.Now() >= shard.NextDeadline()) shard.ExpireWaiters();
        if (!*life.dead) Look();
      });
    }
    Life& life;
    bool looking = false;
  };

  SimWorld& world;
  const uint64_t name;
  // A separate object, because replies in transit refer to the flag but must not keep the process
  // alive.
  const std::shared_ptr<bool> dead = std::make_shared<bool>(false);
  Time turn_due = Time::max();
  Metrics metrics;
  CpuDevice device;
  exec::Backend backend = exec::Backend::Cpu();
  std::unique_ptr<Storage> storage;
  EventDeadlines deadlines;
  std::unique_ptr<DurableShard> durable;
  std::unique_ptr<TensorCalls> calls;
  // Saves that are queued; a save may refer to the shard.
  std::deque<std::function<void()>> saves;
};

SimServer::SimServer(int index, SimServerOptions options, SimWorld& world)
    : index_(index),
      options_(std::move(options)),
      world_(world),
      disk_(world, options_.forget_previous) {}

SimServer::~SimServer() {
  if (alive()) Kill(false);
}

Shard& SimServer::shard() { return life_->durable->shard(); }

Status SimServer::Restore(uint64_t snapshot) { return life_->durable->Restore(snapshot).status(); }

Status SimServer::Start() {
  CHECK(!alive());
  // Incarnation numbers of servers are unique, even among different servers.
  const uint64_t number = static_cast<uint64_t>(index_ + 1) * 1'000'000 + ++lives_;
  life_ = std::make_shared<Life>(index_, number, options_, world_, disk_);
  const StatusOr<uint64_t> version = life_->durable->Recover();
  world_.Note("server up", static_cast<uint64_t>(index_), version.ok() ? *version : UINT64_MAX);
  const bool whole = version.ok() && shard().checkpoints().missing_pushes() == 0;
  if (whole && *version < told_) {
    return DataLoss("server %d comes back with version %d, and had told of version %d", index_,
                    *version, told_);
  }
  return Annotate(version.status(), absl::StrFormat("server %d comes back", index_));
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
  // The code of the process may be on the stack now, so a later event destroys the object.
  world_.After(Duration::zero(), [life = std::move(life_)] {});
  life_ = nullptr;
  for (auto& told : std::exchange(mourners_, {})) told();
}

// In sync mode a trainer may request the previous version, so the version in replies may decrease.
bool SimServer::Grows() { return shard().Info().config.mode == UpdatePolicy::kASync; }

void SimServer::Handle(rpc::PserverCall call, const std::string& request, Answer answer) {
  // Holds a reference to the process, because the call may kill the process.
  const std::shared_ptr<Life> life = life_;
  Shard& shard = life->durable->shard();
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
  if (call == rpc::PserverCall::kComplete) {
    CompleteRequest r;
    Status status = rpc::ParseMessage(bytes, &r);
    if (status.ok()) status = shard.Complete(CallerOf(r)).status();
    if (!status.ok()) return written(status, {});
    return life->durable->WhenSafeToLeave(
        [reply](const Status& w) { reply(w, rpc::EncodedProto(CompleteReply())); });
  }
  if (call == rpc::PserverCall::kSaveCheckpoint) {
    return plain(SaveCheckpointRequest(), SaveCheckpointReply(), [&](const auto& r, auto* out) {
      const auto saved = life->durable->Save(false, r.unless_kept());
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
    life->durable->WhenDurable(
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
                [&](const auto& r, auto* out) { return HoldPushes(r, *life->durable, out); });
  }
  if (call == rpc::PserverCall::kTakeSnapshot) {
    TakeCutRequest r;
    if (const Status status = rpc::ParseMessage(bytes, &r); !status.ok()) return reply(status, {});
    const auto out = std::make_shared<TakeCutReply>();
    TakeSnapshot(r, *life->durable, out.get(),
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
