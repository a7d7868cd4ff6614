// One process of a simulated server. Only server.cc and standby.cc include this header.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "proto/pserver.pb.h"
#include "pserver/replication/log_source.h"
#include "pserver/service/replication_calls.h"
#include "pserver/shard/checkpoint_calls.h"
#include "tests/sim/server.h"
#include "tests/sim/standby.h"

namespace tandem::pserver {

// One process of a server. Scheduled events hold a reference to the process, but have no effect if
// it is dead.
struct SimServer::Life : std::enable_shared_from_this<Life> {
  Life(int i, uint64_t n, const SimServerOptions& o, SimWorld& w, SimDisk& disk)
      : index(i), number(n), options(o), world(w), storage(disk.Open()), deadlines(*this) {
    if (options.group.standbys != 0) MakeSource();
    MakeShard();
  }
  void MakeSource() {
    const SimMemberOptions& group = options.group;
    LogSource::Options made{.standbys = group.standbys, .member = group.member};
    made.on_replicated = [this](uint64_t last) {
      options.group.on_replicated(options.group.member, source->term(), last);
      durable->log()->Replicated(last);
    };
    made.save = [this] { return durable->Save().status(); };
    source = std::make_unique<LogSource>(std::move(made), *storage, world.clock());
  }
  void MakeShard() {
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
    if (source != nullptr) {
      made.log.on_written = [this](std::span<const LogEntry> entries) { OnWritten(entries); };
      made.on_first_stored = [this] { durable->log()->AwaitStandbys(); };
    }
    durable = std::make_unique<DurableShard>(std::move(made), storage.get(), world.clock(), backend,
                                             device, metrics);
    calls = std::make_unique<TensorCalls>(number, durable->shard(), deadlines);
  }

  // Runs `what` now, or after Continue if the process is paused. Does nothing if the process has
  // died.
  void Post(std::function<void()> what) {
    if (*dead) return;
    if (paused) return held.push_back(std::move(what));
    what();
  }
  // Posts `what` after `pause`, as a thread of the process would.
  void After(Duration pause, std::function<void()> what) {
    world.After(pause, [self = shared_from_this(), what = std::move(what)] { self->Post(what); });
  }
  void Pause() { paused = true; }
  void Continue() {
    paused = false;
    for (auto& what : std::exchange(held, {})) After(Duration::zero(), std::move(what));
  }
  void TurnLog() {
    const Time next = durable->log()->NextTurn();
    if (turn_due <= next || next == Time::max()) return;
    turn_due = std::max(next, world.Now());
    After(turn_due - world.Now() +
              world.Between(std::chrono::microseconds(10), std::chrono::microseconds(2000)),
          [this] {
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
    After(world.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(40)),
          [this, s = shards] {
            if (s != shards) return;
            saves.front()();
            if (*dead) return;
            saves.pop_front();
            if (!saves.empty()) SaveNext();
          });
  }

  // ---- Members of a server with standbys (pserver/server_parts.cc) ------------------------------
  void OnWritten(std::span<const LogEntry> entries) {
    if (source->term().history == 0) return;
    source->OnWritten(entries);
    WakeFetches();
  }
  // Handles the requests of standbys that wait for entries again.
  void WakeFetches() {
    for (auto& fetch : std::exchange(fetches, {})) {
      After(world.Between(std::chrono::microseconds(10), std::chrono::microseconds(500)),
            std::move(fetch));
    }
  }
  // Answers a request for entries when there are entries, or at the time `end`.
  void FetchEntries(const FetchLogRequest& request, Time end, const Answer& answer) {
    FetchLogReply reply;
    const Status status = FetchLogEntries(request, Time::min(), source.get(), &reply);
    if (*dead) return;
    const bool waits = status.ok() && !reply.needs_checkpoint() && reply.entry().empty();
    if (!waits || world.Now() >= end) return answer(status, reply.SerializeAsString());
    fetches.push_back([this, request, end, answer] { FetchEntries(request, end, answer); });
    After(end - world.Now(), [this] { WakeFetches(); });
  }
  // Replaces the shard by an empty one.
  void MakeEmptyShard() {
    durable->shard().Shutdown();
    durable->Close();
    // The saver thread ends its work on the old shard.
    while (!saves.empty() && !*dead) {
      saves.front()();
      saves.pop_front();
    }
    ++shards;
    calls.reset();
    durable.reset();
    MakeShard();
  }
  Status BeginReplication(LogTerm term, std::optional<LogSource::Predecessor> predecessor) {
    if (term.history == 0) term.history = 1 + world.Below(UINT64_MAX);
    TD_RETURN_IF_ERROR(storage->files()->SetTerm(term));
    if (durable->shard().Info().initialised) durable->log()->AwaitStandbys();
    source->BeginTerm(term, durable->log()->written(), predecessor);
    options.group.on_term(options.group.member, term, durable->log()->written());
    WakeFetches();
    return OkStatus();
  }
  Status ResumeReplication() {
    TD_ASSIGN_OR_RETURN(LogTerm term, storage->files()->Term());
    if (term.history == 0) return BeginReplication({0, 1, 0}, std::nullopt);
    const LogSource::Predecessor predecessor{term, durable->log()->written(), /*restarted=*/true};
    ++term.start;
    return BeginReplication(term, predecessor);
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
      life.After(std::min<Duration>(left, std::chrono::milliseconds(500)), [this] {
        looking = false;
        Shard& shard = life.durable->shard();
        if (life.world.Now() >= shard.NextDeadline()) shard.ExpireWaiters();
        if (!*life.dead) Look();
      });
    }
    Life& life;
    bool looking = false;
  };

  const int index;
  const uint64_t number;  // incarnation of the server
  const SimServerOptions options;
  SimWorld& world;
  // A separate object, because replies in transit refer to the flag but must not keep the process
  // alive.
  const std::shared_ptr<bool> dead = std::make_shared<bool>(false);
  bool paused = false;
  std::deque<std::function<void()>> held;  // functions posted while the process was paused
  Time turn_due = Time::max();
  Metrics metrics;
  CpuDevice device;
  exec::Backend backend = exec::Backend::Cpu();
  std::unique_ptr<Storage> storage;
  std::unique_ptr<LogSource> source;  // null: the server has no standbys
  // Requests of standbys that wait for entries.
  std::vector<std::function<void()>> fetches;
  EventDeadlines deadlines;
  uint64_t shards = 0;  // number of shards that were replaced by empty ones
  std::unique_ptr<DurableShard> durable;
  std::unique_ptr<TensorCalls> calls;
  // Saves that are queued; a save may refer to the shard.
  std::deque<std::function<void()>> saves;
  bool changes_role = false;                    // the process becomes the primary
  std::vector<std::function<void()>> commands;  // commands that wait until the role has changed
  std::unique_ptr<SimStandby> standby;          // null: the process is the primary
};

}  // namespace tandem::pserver
