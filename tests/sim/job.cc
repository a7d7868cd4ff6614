#include "tests/sim/job.h"
#include "pserver/shard/checkpoint_calls.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "tests/sim/sim_job.h"

namespace tandem::pserver {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Maximum number of starts of one trainer. No fault plan needs as many starts.
constexpr uint64_t kStartsMax = 200;

// State of one call of a client. The state lives until the callback of the call has run.
struct Waiting {
  std::unique_ptr<ps::PsEvent> ended;
  Status status;
};

template <typename Call>
std::shared_ptr<Waiting> Begin(SimProcess& process, const Call& call) {
  auto waiting = std::make_shared<Waiting>(Waiting{process.MakeEvent(), OkStatus()});
  call([waiting](const Status& status) {
    waiting->status = status;
    waiting->ended->Set();
  });
  return waiting;
}

Status End(SimProcess& process, Waiting& waiting) {
  if (waiting.ended->WaitUntil(process.world().Now() + seconds(200))) return waiting.status;
  return DeadlineExceeded("a call did not end");
}

template <typename Call>
Status Await(SimProcess& process, const Call& call) {
  return End(process, *Begin(process, call));
}

std::shared_ptr<Waiting> BeginRows(ps::PsClient& client, SimProcess& process,
                                   ps::PullCondition when, SimBatch& batch) {
  return Begin(process, [&](const auto& done) {
    client.PullRows(when, {batch.Rows()},
                    [done](const StatusOr<uint64_t>& v) { done(v.status()); });
  });
}

}  // namespace

// Returns the number of steps that every trainer must have pushed before a trainer with `done`
// steps may continue. 0: the trainer need not wait.
uint64_t SimJob::StepBound(uint64_t done) const {
  if (plan_.staleness < 0) return 0;
  return done - std::min(done, static_cast<uint64_t>(plan_.staleness));
}

Status SimJob::Step(ps::PsClient& client, SimProcess& process, uint64_t step, SimBatch& batch,
                    SimBatch& next, const std::function<void()>& meanwhile) {
  const ps::PullCondition when{.version = plan_.mode == UpdatePolicy::kSync ? step + 1 : 0,
                               .step = StepBound(step + 1)};
  if (plan_.push_and_pull) {
    return Await(process, [&](const auto& done) {
      client.PushPull(
          step, 1.0f, batch.Gradients(), when, next.Parameters(),
          [done](const StatusOr<uint64_t>& version) { done(version.status()); },
          batch.RowGradients(), ledger_.EventTimeOf(step));
      meanwhile();
    });
  }
  TD_RETURN_IF_ERROR(Await(process, [&](const auto& done) {
    client.Push(step, 1.0f, batch.Gradients(), done, batch.RowGradients(),
                ledger_.EventTimeOf(step));
    meanwhile();
  }));
  return Await(process, [&](const auto& done) {
    client.Pull(when, next.Parameters(),
                [done](const StatusOr<uint64_t>& version) { done(version.status()); });
  });
}

Status SimJob::Train(int rank, uint64_t incarnation, const std::shared_ptr<SimProcess>& process) {
  ps::PsOptions options;
  options.job = kSimJob;
  options.trainer = rank;
  options.trainers = plan_.trainers;
  options.incarnation = incarnation;
  options.partition.min_block_size = 1;
  options.rules.each_step_once = plan_.source;
  // Declared before the client, because the client may still send the batches while it is
  // destroyed.
  SimBatch batches[] = {{plan_.seed, ledger_}, {plan_.seed, ledger_}};
  const std::vector<std::string> known(addresses_.begin(), addresses_.begin() + plan_.servers);
  const auto client = ps::PsClient::Over(
      std::make_unique<SimCarrier>(process, network_, calls_, plan_.retries), known, options);
  const bool sync = plan_.mode == UpdatePolicy::kSync;
  TD_RETURN_IF_ERROR(client
                         ->Configure(ledger_.Variables(),
                                     sync ? ps::PsMode::kSync : ps::PsMode::kASync, {},
                                     ledger_.Tables())
                         .status());
  TD_ASSIGN_OR_RETURN(const uint64_t version, client->InitOrFetch(batches[0].Parameters()));
  const auto steps = static_cast<uint64_t>(plan_.steps);
  // In sync mode, a trainer continues at the step of the servers. In a_sync mode, neither the
  // trainer nor its replacement begins a push a second time, even if the fate of the push is
  // unknown.
  const auto next = [&](uint64_t step) {
    return sync || plan_.source ? step : ledger_.begun(rank);
  };
  uint64_t first = next(version);
  const auto stream = plan_.source ? source_->Open(process) : nullptr;
  if (stream != nullptr) {
    TD_ASSIGN_OR_RETURN(const std::vector<ps::PsServerInfo> servers, client->ServerInfo());
    first = ps::FirstStep(servers);
  }
  std::shared_ptr<Waiting> rows;  // the request for rows of the next step; null: it has not begun
  size_t present = 0;
  const auto pull = [&](const Push& push, uint64_t step, SimBatch& batch) {
    batch.Begin(push.rank, push.step);
    rows = BeginRows(*client, *process,
                     {.version = sync ? step : 0, .step = StepBound(step), .exactly = sync}, batch);
  };
  for (uint64_t step = first; step < steps; step = next(step + 1)) {
    TD_ASSIGN_OR_RETURN(const Push push, NextPush(stream.get(), rank, step));
    SimBatch& batch = batches[present];
    if (plan_.rows_ahead) present = 1 - present;
    SimBatch& behind = batches[present];
    if (rows == nullptr) pull(push, step, batch);
    TD_RETURN_IF_ERROR(End(*process, *std::exchange(rows, nullptr)));
    batch.Compute(push.rank, push.step);
    if (plan_.think_ms != 0) {
      (void)process->MakeEvent()->WaitUntil(world_.Now() + Pause(plan_.think_ms));
      if (process->dead()) return Cancelled("the process is dead");
    }
    ledger_.Begin(push.rank, push.step);
    TD_RETURN_IF_ERROR(Step(*client, *process, step, batch, behind, [&] {
      if (plan_.rows_ahead && step + 1 < steps) pull({rank, step + 1}, step + 1, behind);
    }));
    ledger_.Acknowledge(push.rank, push.step, world_.Now());
    ++report_.pushes;
  }
  return client->Complete();
}

void SimJob::StartTrainer(int rank) {
  Trainer& t = trainers_[static_cast<size_t>(rank)];
  const auto process = std::make_shared<SimProcess>(world_, kFirstTrainerNode + rank);
  const uint64_t incarnation = ++t.incarnation;
  if (incarnation > kStartsMax)
    return Fail(absl::StrFormat("trainer %d comes to nothing: %s", rank, t.last_words));
  t.processes.push_back(process);
  process->Start([this, &t, rank, incarnation, weak = std::weak_ptr(process)] {
    const auto self = weak.lock();
    const Status status = Train(rank, incarnation, self);
    if (self->dead()) return;
    world_.Note(status.ok() ? "trainer done" : "trainer failed", static_cast<uint64_t>(rank),
                incarnation);
    t.last_words = ToString(status);
    // A server needs the push of a sync step, but the only copy of the push was in a trainer that
    // died. The job cannot continue.
    if (plan_.replayable && status.code() == StatusCode::kAborted) {
      report_.given_up = true;
      const bool replaced = std::any_of(trainers_.begin(), trainers_.end(),
                                        [](const Trainer& any) { return any.incarnation > 1; });
      if (!replaced) Fail("given up while all trainers live: " + t.last_words);
    }
    // All faults of a job end long before this deadline, so a timeout is a failure of the test.
    if (status.code() == StatusCode::kDeadlineExceeded) {
      Fail(absl::StrFormat("trainer %d waited in vain: %s", rank, t.last_words));
    }
    // A server with a full disk has rejected a push, for example.
    if (!status.ok() && plan_.replication == Replication::kAsync) ledger_.ForgiveProcess(rank);
    const bool present = t.incarnation == incarnation;
    if (status.ok() && present) t.done = true;
    // Restarts a failed trainer, as a launcher does.
    if (!status.ok() && present) world_.After(Pause(300), [this, rank] { StartTrainer(rank); });
  });
}

SimServerOptions SimJob::ServerOptions() const {
  SimServerOptions options{kSimJob,
                           plan_.trainers,
                           plan_.wal_sync,
                           plan_.log_bytes_max,
                           plan_.checkpoint_every_steps,
                           plan_.forget_previous,
                           plan_.replayable,
                           plan_.keep_bytes_max};
  options.replication = plan_.replication;
  options.changed_rows_max = plan_.changed_rows_max;
  if (plan_.standbys != 0 || plan_.followers != 0) {
    options.checkpoints = std::make_shared<SimCheckpoints>();
  }
  return options;
}

void SimJob::StartServer(int index) {
  SimServer& server = *servers_[static_cast<size_t>(index)];
  const Status status = server.Start();
  if (status.ok()) return;
  // A server with readers stores its next term at the start.
  if (status.code() != StatusCode::kResourceExhausted) return Fail(ToString(status));
  server.Kill(false);
  world_.After(Pause(200), [this, index] { StartServer(index); });
}

void SimJob::KillServer(int index) {
  if (retired_[static_cast<size_t>(index)]) return;
  SimServer& server = *servers_[static_cast<size_t>(index)];
  if (!server.alive()) return;
  ++report_.server_deaths;
  const auto kill = [this, index, &server] {
    const bool power = plan_.power && world_.Chance(0.5);
    server.Kill(power);
    // The power loss may destroy the pushes of one sync interval. The additional 2 ms allow for a
    // delayed flush of the log.
    if (power && plan_.wal_sync == WalSync::kInterval) {
      ledger_.Forgive(world_.Now() - kSimSyncInterval - milliseconds(2));
    }
    world_.After(Pause(200), [this, index] { StartServer(index); });
  };
  if (world_.Chance(0.4)) return kill();
  server.disk().DieIn(world_.Below(6), kill);
}

void SimJob::KillTrainer(int rank) {
  Trainer& t = trainers_[static_cast<size_t>(rank)];
  SimProcess& process = *t.processes.back();
  if (t.done || process.dead() || process.ended()) return;
  world_.Note("trainer killed", static_cast<uint64_t>(rank));
  ++report_.trainer_deaths;
  process.Kill();
  world_.After(Pause(200), [this, rank] { StartTrainer(rank); });
}

// Moves slices between two servers other than `server`, cuts the trainer off from `server`, and
// kills the trainer. Thus the last push of the trainer may reach the other servers, but not
// `server`.
void SimJob::TearStep(int rank, int server) {
  StartMover(/*spared=*/server);
  world_.After(Pause(6), [this, rank, server] {
    network_.Cut(kFirstTrainerNode + rank, server, world_.Now() + milliseconds(500));
    world_.After(Pause(60), [this, rank] { KillTrainer(rank); });
  });
}

void SimJob::PauseTrainer(int rank) {
  Trainer& t = trainers_[static_cast<size_t>(rank)];
  const auto process = t.processes.back();
  if (t.done || process->dead() || process->ended() || process->paused()) return;
  world_.Note("trainer paused", static_cast<uint64_t>(rank));
  ++report_.pauses;
  process->Pause();
  world_.After(Pause(800), [process] { process->Continue(); });
  // In half of the cases, a replacement starts as if the paused trainer had died. The paused
  // trainer continues later nevertheless.
  if (world_.Chance(0.5)) {
    world_.After(Pause(300), [this, rank, process] {
      const Trainer& now = trainers_[static_cast<size_t>(rank)];
      if (now.processes.back() == process && !process->ended()) StartTrainer(rank);
    });
  }
}

void SimJob::Mischief() {
  if (mischief_done_++ == plan_.mischief) return network_.Behave();
  if (plan_.followers != 0 && world_.Chance(0.4)) {
    HarmReader();
    return world_.After(Pause(60), [this] { Mischief(); });
  }
  if (plan_.standbys != 0) {
    HarmGroup();
    return world_.After(Pause(world_.Chance(0.5) ? 40 : 500), [this] { Mischief(); });
  }
  const int server = static_cast<int>(world_.Below(servers_.size()));
  const int rank = static_cast<int>(world_.Below(static_cast<uint64_t>(plan_.trainers)));
  if (const std::string wrong = OwnersAreWrong(/*settled=*/false); !wrong.empty()) Fail(wrong);
  switch (world_.Below(plan_.moves ? 14 : 8)) {
    case 0:
    case 1:
    case 2:
      KillServer(server);
      break;
    case 3:
      plan_.torn ? TearStep(rank, server) : KillTrainer(rank);
      break;
    case 4:
      PauseTrainer(rank);
      break;
    case 5:
      ++report_.cuts;
      world_.Note("cut", static_cast<uint64_t>(rank), static_cast<uint64_t>(server));
      network_.Cut(kFirstTrainerNode + rank, server, world_.Now() + Pause(500));
      break;
    case 6:
      if (servers_[server]->alive())
        servers_[server]->Handle(rpc::PserverCall::kSaveCheckpoint, "", [](auto&&...) {});
      break;
    case 7:
      // Skips the fault with wal_sync=interval: the log on a full disk is not synced, so a power
      // loss could destroy the pushes of more than one interval.
      if (plan_.power && plan_.wal_sync == WalSync::kInterval) break;
      servers_[server]->disk().FullUntil(world_.Now() + Pause(300));
      break;
    case 8:
      KillMover();
      break;
    default:
      StartMover();
  }
  if (plan_.source && plan_.cuts && world_.Chance(0.5)) StartOperator();
  if (plan_.cuts && !Rewinds() && world_.Chance(0.3)) StartCutter();
  if (plan_.cuts && world_.Chance(0.1)) KillCutter();
  world_.After(Pause(40), [this] { Mischief(); });
}

void SimJob::CheckServers() {
  const bool sync = plan_.mode == UpdatePolicy::kSync;
  std::vector<ShardSnapshot> images;
  if (const std::string wrong = OwnersAreWrong(/*settled=*/plan_.moves); !wrong.empty())
    Fail(wrong);
  for (int i = 0; i < static_cast<int>(servers_.size()) && report_.failure.empty(); ++i) {
    SimServer& server = *servers_[i];
    if (retired_[static_cast<size_t>(i)] || !server.shard().Info().initialised) continue;
    const StatusOr<ShardSnapshot> before = server.shard().checkpoints().Take();
    server.Kill(plan_.power);  // All data that the plan syncs has been synced by now.
    StartServer(i);
    const StatusOr<ShardSnapshot> image = server.shard().checkpoints().Take();
    if (!image.ok()) return Fail(absl::StrFormat("server %d: %s", i, ToString(image.status())));
    if (before.ok() && ParametersOf(*before) != ParametersOf(*image)) {
      Fail(absl::StrFormat("server %d comes back with other parameters than it had", i));
    }
    for (const TrainerPushState& mark : image->marks) {
      report_.lost += mark.lost_pushes;
      const bool replaced = trainers_[static_cast<size_t>(mark.trainer)].incarnation > 1;
      if (mark.lost_pushes > 0 && !replaced) Fail("a trainer that lives lost pushes");
    }
    if (!server.wrong().empty()) Fail(server.wrong());
    // The test can check the order only if no push was lost, because only the server knows which
    // pushes it lost.
    const bool known = !sync && report_.lost == 0 && report_.rewinds == 0;
    const std::string wrong = known ? CheckOrder(*image, server.disk()) : "";
    if (!wrong.empty()) Fail(absl::StrFormat("server %d: %s", i, wrong));
    images.push_back(*image);
  }
  report_.parameters = ParametersOfAll(images);
  if (report_.failure.empty())
    report_.failure = ledger_.Check(images, /*all=*/sync || plan_.source);
  AwaitReaders(images);
}

SimReport SimJob::Run() {
  for (size_t i = 0; i < servers_.size(); ++i) StartServer(static_cast<int>(i));
  for (const auto& group : groups_) group->Start();
  for (int r = 0; r < plan_.trainers; ++r) StartTrainer(r);
  StartReaders();
  if (source_) source_->Start();
  if (plan_.mischief > 0) world_.After(Pause(20), [this] { Mischief(); });
  const Time begin = world_.Now(), end = begin + std::chrono::hours(2);
  if (!world_.RunUntil([this] { return Done(); }, end)) {
    Fail("the job does not end");
  }
  for (const auto& group : groups_) {
    if (!group->wrong().empty()) Fail(group->wrong());
    report_.given_up |= group->given_up();
  }
  const auto all_up = [this] {
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (!servers_[i]->alive() && !retired_[i]) return false;
    }
    return true;
  };
  if (report_.failure.empty() && !report_.given_up) {
    mischief_done_ = plan_.mischief;
    world_.RunUntil(all_up, end);
    // Waits until work in progress is complete, for example until servers have rejected replaced
    // trainers and have written their logs.
    world_.RunUntil([] { return false; }, world_.Now() + seconds(5));
    if (plan_.moves) {
      TellAll();
      world_.RunUntil([] { return false; }, world_.Now() + seconds(1));
    }
    groups_.empty() ? CheckServers() : CheckGroups();
    if (report_.failure.empty()) CheckCuts();
  }
  CountReaders();
  report_.seconds = Seconds(world_.Now() - begin);
  report_.trace_hash = world_.trace_hash();
  report_.trace = world_.trace();
  return report_;
}

SimReport RunJob(const SimPlan& plan) { return SimJob(plan).Run(); }

}  // namespace tandem::pserver
