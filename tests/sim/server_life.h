// One process of a simulated server: the parts of ServerParts, with events instead of threads. Only
// server.cc and standby.cc include this header.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "proto/pserver.pb.h"
#include "pserver/follower_state.h"
#include "pserver/replication/log_source.h"
#include "pserver/replication/term_keeper.h"
#include "pserver/service/change_calls.h"
#include "pserver/service/replication_calls.h"
#include "pserver/shard/checkpoint_calls.h"
#include "tests/sim/server.h"
#include "tests/sim/standby.h"

namespace tandem::pserver {

// One process of a server. Scheduled events hold a reference to the process, but have no effect if
// it is dead.
struct SimServer::Life final : FollowerParts, std::enable_shared_from_this<Life> {
  Life(int i, uint64_t n, const SimServerOptions& o, SimWorld& w, SimDisk& disk)
      : index(i), number(n), options(o), world(w), store(disk.Open()), deadlines(*this) {
    if (store->files() != nullptr) MakeSource();
    MakeShard();
  }
  void MakeSource() {
    const SimMemberOptions& group = options.group;
    LogSource::Options made{.standbys = group.standbys, .member = group.replica ? 0 : group.member};
    made.on_replicated = [this](uint64_t last) {
      if (options.group.on_replicated)
        options.group.on_replicated(options.group.member, source->term(), last);
      durable_shard->log()->Replicated(last);
      if (last <= woken_at) return;
      woken_at = last;
      WakeFetches();
    };
    made.save = [this] { return durable_shard->Save().status(); };
    source = std::make_unique<LogSource>(std::move(made), *store, clock);
    TermKeeper::Options terms_made{group.standbys, [this] { return 1 + world.Below(UINT64_MAX); },
                                   options.replication};
    terms = std::make_unique<TermKeeper>(std::move(terms_made), *store, *source);
  }
  void MakeShard() {
    DurableShard::Options made;
    made.shard.server_incarnation = number;
    made.shard.index = index;
    made.shard.job = options.job;
    made.shard.trainers = options.trainers;
    made.shard.checkpoint_every_steps = options.checkpoint_every_steps;
    made.shard.replayable = options.replayable;
    made.shard.replication = options.replication;
    made.shard.keep_bytes_max = options.keep_bytes_max;
    made.shard.table_memory.changed_rows = options.changed_rows_max;
    made.logged = true;
    made.logs_snapshots = options.group.standbys != 0 && !options.group.replica;
    made.log = {options.wal_sync, kSimSyncInterval, options.log_bytes_max, nullptr,
                [this] { TurnLog(); }};
    made.later = [this](std::function<void()> work) { return SaveLater(std::move(work)); };
    if (source != nullptr) {
      made.log.on_written = [this](std::span<const LogEntry> entries) { OnWritten(entries); };
      made.on_first_stored = [this] {
        const bool waits =
            options.group.standbys != 0 && options.replication == Replication::kQuorum;
        if (waits) durable_shard->log()->AwaitStandbys();
      };
      made.on_restore_begin = [this] { return terms->OnRestoreBegin(); };
      made.on_restore_end = [this](DurableShard::RestoreEnd end) { return OnRestoreEnd(end); };
    }
    durable_shard = std::make_unique<DurableShard>(std::move(made), store.get(), clock, backend,
                                                   device, metrics);
    calls = std::make_unique<TensorCalls>(number, durable_shard->shard(), deadlines);
  }

  // Runs `what` now, or after Continue if the process is paused. Does nothing if the process has
  // died.
  void Post(std::function<void()> what) {
    if (*dead) return;
    if (paused) return held.push_back(std::move(what));
    what();
  }
  // Posts `what` after `pause`, as a thread of the process would. Does nothing while the life ends:
  // calls of its shard then fail.
  void After(Duration pause, std::function<void()> what) {
    const auto self = weak_from_this().lock();
    if (self == nullptr) return;
    world.After(pause, [self, what = std::move(what)] { self->Post(what); });
  }
  void Pause() { paused = true; }
  void Continue() {
    paused = false;
    for (auto& what : std::exchange(held, {})) After(Duration::zero(), std::move(what));
  }
  void TurnLog() {
    const Time next = durable_shard->log()->NextTurn();
    if (turn_due <= next || next == Time::max()) return;
    turn_due = std::max(next, clock.Now());
    After(turn_due - clock.Now() +
              world.Between(std::chrono::microseconds(10), std::chrono::microseconds(2000)),
          [this] {
            turn_due = Time::max();
            if (durable_shard->log()->NextTurn() <= clock.Now()) durable_shard->log()->Turn();
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
  // Answers a request for a part of a checkpoint. A replica gets no part before a majority of the
  // members has stored all log entries, or before the time `end` (LogSource::FetchCheckpoint).
  void FetchCheckpoint(const FetchCheckpointRequest& request, Time end, const Answer& answer) {
    const bool first = request.replica() && request.offset() == 0;
    if (first && source->term().history != 0 && !source->AllReplicated()) {
      if (world.Now() >= end) return answer(Unavailable("standbys lack entries"), "");
      fetches.push_back([this, request, end, answer] { FetchCheckpoint(request, end, answer); });
      return After(end - world.Now(), [this] { WakeFetches(); });
    }
    FetchCheckpointReply reply;
    const Status status = FetchCheckpointPart(request, source.get(), &reply);
    if (!*dead) answer(status, reply.SerializeAsString());
  }

  // Answers a request for changes when there are some, or at the time `until`, as PserverService
  // does.
  using ChangesAnswer = std::function<void(const Status&, const FetchChangesReply&)>;
  void PollChanges(const FetchChangesRequest& request, Time until, const ChangesAnswer& answer) {
    Shard& shard = durable_shard->shard();
    FetchChangesReply reply;
    const Status status = FetchTableChanges(request, history(), shard, &reply);
    if (!status.ok() || HasChanges(request, reply) || clock.Now() >= until) {
      return shard.WhenLogged([status, reply, answer](const Status& written) {
        answer(status.ok() ? written : status, reply);
      });
    }
    PullQuery query;
    query.caller.job = request.job();
    query.observer = query.version_only = true;
    query.min_version = reply.version() + 1;
    shard.Pull(
        query, until,
        [this, request, until, answer](const StatusOr<PullResult>& result) {
          if (!result.ok() && result.status().code() != StatusCode::kDeadlineExceeded) {
            return answer(result.status(), {});
          }
          After(Duration::zero(),
                [this, request, until, answer] { PollChanges(request, until, answer); });
        },
        nullptr);
    deadlines.Look();
  }

  // ---- FollowerParts (pserver/server_parts.cc) --------------------------------------------------
  DurableShard& durable() override { return *durable_shard; }
  Storage* storage() override { return store.get(); }
  StatusOr<uint64_t> Recover() override { return durable_shard->Recover(); }
  Status MakeEmptyShard() override {
    durable_shard->shard().Shutdown();
    durable_shard->Close();
    // The saver thread ends its work on the old shard.
    while (!saves.empty() && !*dead) {
      saves.front()();
      saves.pop_front();
    }
    ++shards;
    calls.reset();
    durable_shard.reset();
    terms->OnEmptyShard();
    MakeShard();
    return OkStatus();
  }
  Status AwaitLogged() override { return standby->AwaitLogged(); }
  Status BeginReplication(LogTerm term,
                          std::optional<LogSource::Predecessor> predecessor) override {
    TD_RETURN_IF_ERROR(terms->Begin(term, predecessor, Log()));
    return OnTerm();
  }
  Status ResumeReplication() override {
    TD_RETURN_IF_ERROR(terms->Resume(Log()));
    return OnTerm();
  }
  // Returns the history by which the process checks the positions of readers.
  StateHistory* history() {
    return options.group.replica ? standby->history() : static_cast<StateHistory*>(source.get());
  }
  TermKeeper::Log Log() {
    return {*durable_shard->log(), durable_shard->shard().Info().initialised};
  }
  Status OnTerm() {
    const auto& told = options.group.on_term;
    if (told) told(options.group.member, source->term(), durable_shard->log()->written());
    woken_at = 0;
    WakeFetches();
    return OkStatus();
  }
  Status OnRestoreEnd(DurableShard::RestoreEnd end) {
    using enum DurableShard::RestoreEnd;
    TD_RETURN_IF_ERROR(terms->OnRestoreEnd(end != kUnchanged, end == kStored, Log()));
    return end == kStored ? OnTerm() : OkStatus();
  }

  struct EventDeadlines final : Deadlines {
    explicit EventDeadlines(Life& l) : Deadlines(l.clock), life(l) {}
    void Poke(Time /*deadline*/) override { Look(); }
    // Expires waiting calls at their deadlines. While calls wait, checks the deadlines at least
    // every 500 ms, like pserver/service/deadline_driver.h.
    void Look() {
      const Time next = life.durable_shard->shard().NextDeadline();
      if (looking || next == Time::max()) return;
      looking = true;
      const Duration left = std::max(next - life.clock.Now(), Duration::zero());
      life.After(std::min<Duration>(left, std::chrono::milliseconds(500)), [this] {
        looking = false;
        Shard& shard = life.durable_shard->shard();
        if (life.clock.Now() >= shard.NextDeadline()) shard.ExpireWaiters();
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
  SimClock clock{world.clock()};
  std::unique_ptr<Storage> store;
  std::unique_ptr<LogSource> source;  // null: the server has no standbys and no readers
  std::unique_ptr<TermKeeper> terms;  // set together with source
  // Requests of standbys and replicas that wait for entries.
  std::vector<std::function<void()>> fetches;
  uint64_t woken_at = 0;  // number of the last replicated entry for which `fetches` were woken
  EventDeadlines deadlines;
  uint64_t shards = 0;  // number of shards that were replaced by empty ones
  std::unique_ptr<DurableShard> durable_shard;
  std::unique_ptr<TensorCalls> calls;
  // Saves that are queued; a save may refer to the shard.
  std::deque<std::function<void()>> saves;
  bool changes_role = false;                    // the process becomes the primary
  std::vector<std::function<void()>> commands;  // commands that wait until the role has changed
  std::unique_ptr<SimStandby> standby;  // a standby or replica; null: the process is the primary
  uint64_t following = 0;  // number of the kFollow that the standby obeys; 0: it follows no server
  std::optional<MemberCommand> appointment;  // the kBegin or kPromote that the process has obeyed
};

}  // namespace tandem::pserver
