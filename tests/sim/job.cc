#include "tests/sim/job.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "pserver/client/client.h"
#include "tests/sim/carrier.h"
#include "tests/sim/ledger.h"

namespace tandem {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr int kFirstTrainerNode = 100;
constexpr char kJob[] = "sim";
constexpr uint64_t kStartsMax = 200;  // of a trainer; more than any mischief causes

class SimJob {
 public:
  explicit SimJob(const SimPlan& plan)
      : plan_(plan),
        world_(plan.seed),
        network_(world_, plan.network),
        ledger_(plan.servers, plan.trainers, plan.steps) {
    if (plan.keep_trace) world_.KeepTrace();
    for (int i = 0; i < plan.servers; ++i) {
      servers_.push_back(std::make_unique<SimServer>(
          i,
          SimServerOptions{kJob, plan.trainers, plan.wal_sync, plan.log_bytes_max,
                           plan.checkpoint_every_steps, plan.bug, plan.forget_previous},
          world_));
      addresses_.push_back(absl::StrFormat("server-%d", i));
    }
    trainers_.resize(static_cast<size_t>(plan.trainers));
  }
  ~SimJob() {
    for (Trainer& t : trainers_) {
      for (const auto& process : t.processes) process->Kill();
    }
    for (auto& server : servers_) {
      if (server->alive()) server->Kill(false);
    }
    world_.Forget();
  }

  SimReport Run();

 private:
  struct Trainer {
    // All that ever were; the last one is the present one. Older ones may be paused.
    std::vector<std::shared_ptr<SimProcess>> processes;
    uint64_t incarnation = 0;
    std::string last_words;
    bool done = false;
  };

  void Fail(const std::string& what) {
    if (report_.failure.empty()) report_.failure = what;
  }
  void StartServer(int index) {
    if (const Status status = servers_[index]->Start(); !status.ok()) Fail(ToString(status));
  }
  void KillServer(int index);
  void StartTrainer(int rank);
  void KillTrainer(int rank);
  void PauseTrainer(int rank);
  Status Train(int rank, uint64_t incarnation, const std::shared_ptr<SimProcess>& process);
  Status Step(PsClient& client, SimProcess& process, uint64_t step, SimBatch& batch);
  void Mischief();
  void CheckServers();
  bool Done() const {
    return !report_.failure.empty() ||
           std::all_of(trainers_.begin(), trainers_.end(), [](const Trainer& t) { return t.done; });
  }
  Duration Pause(int most_ms) { return world_.Between(milliseconds(1), milliseconds(most_ms)); }

  const SimPlan plan_;
  SimReport report_;
  SimWorld world_;
  SimNetwork network_;
  SimLedger ledger_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<std::string> addresses_;
  std::vector<Trainer> trainers_;
  int mischief_done_ = 0;
};

// Begins a call and waits for its end.
template <typename Begin>
Status Await(SimProcess& process, const Begin& begin) {
  struct Waiting {
    std::unique_ptr<PsEvent> ended;
    Status status;
  };
  const auto waiting = std::make_shared<Waiting>(Waiting{process.MakeEvent(), OkStatus()});
  begin([waiting](const Status& status) {
    waiting->status = status;
    waiting->ended->Set();
  });
  if (!waiting->ended->WaitUntil(process.world().Now() + seconds(200))) {
    return DeadlineExceeded("a call did not end");
  }
  return waiting->status;
}

Status SimJob::Step(PsClient& client, SimProcess& process, uint64_t step, SimBatch& batch) {
  const PsWhen when{.version = plan_.mode == ShardMode::kSync ? step + 1 : 0};
  if (plan_.push_and_pull) {
    return Await(process, [&](const auto& done) {
      client.PushPull(step, 1.0f, batch.Gradients(), when, batch.Parameters(),
                      [done](const StatusOr<uint64_t>& version) { done(version.status()); },
                      {batch.RowGradients()});
    });
  }
  TD_RETURN_IF_ERROR(Await(process, [&](const auto& done) {
    client.Push(step, 1.0f, batch.Gradients(), done, {batch.RowGradients()});
  }));
  return Await(process, [&](const auto& done) {
    client.Pull(when, batch.Parameters(),
                [done](const StatusOr<uint64_t>& version) { done(version.status()); });
  });
}

Status SimJob::Train(int rank, uint64_t incarnation, const std::shared_ptr<SimProcess>& process) {
  PsOptions options;
  options.job = kJob;
  options.trainer = rank;
  options.trainers = plan_.trainers;
  options.incarnation = incarnation;
  options.partition.min_block_size = 1;
  SimBatch batch(plan_.seed, ledger_);  // outlives the client, which may still send it
  std::vector<SimServer*> servers;
  for (auto& server : servers_) servers.push_back(server.get());
  const auto client = PsClient::Over(
      std::make_unique<SimCarrier>(process, network_, servers, plan_.retries), addresses_, options);
  const bool sync = plan_.mode == ShardMode::kSync;
  TD_RETURN_IF_ERROR(client
                         ->Configure(ledger_.Variables(), sync ? PsMode::kSync : PsMode::kASync, {},
                                     ledger_.Tables())
                         .status());
  TD_ASSIGN_OR_RETURN(const uint64_t version, client->InitOrFetch(batch.Parameters()));
  const auto steps = static_cast<uint64_t>(plan_.steps);
  // A sync job goes on where its servers are. Else a push that was begun is not begun again,
  // whatever became of it: not by this trainer, nor by one that took its place.
  const auto next = [&](uint64_t step) { return sync ? step : ledger_.begun(rank); };
  for (uint64_t step = next(version); step < steps; step = next(step + 1)) {
    batch.Begin(rank, step);
    TD_RETURN_IF_ERROR(Await(*process, [&](const auto& done) {
      client->PullRows({.version = sync ? step : 0, .exactly = sync}, {batch.Rows()},
                       [done](const StatusOr<uint64_t>& v) { done(v.status()); });
    }));
    batch.Compute(rank, step);
    ledger_.Begin(rank, step);
    TD_RETURN_IF_ERROR(Step(*client, *process, step, batch));
    ledger_.Acknowledge(rank, step, world_.Now());
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
    const bool present = t.incarnation == incarnation;
    if (status.ok() && present) t.done = true;
    // As a launcher does.
    if (!status.ok() && present) world_.After(Pause(300), [this, rank] { StartTrainer(rank); });
  });
}

void SimJob::KillServer(int index) {
  SimServer& server = *servers_[static_cast<size_t>(index)];
  if (!server.alive()) return;
  ++report_.server_deaths;
  const auto kill = [this, index, &server] {
    const bool power = plan_.power && world_.Chance(0.5);
    server.Kill(power);
    // What the interval costs at most; and a turn of the log may come 2 ms late.
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

void SimJob::PauseTrainer(int rank) {
  Trainer& t = trainers_[static_cast<size_t>(rank)];
  const auto process = t.processes.back();
  if (t.done || process->dead() || process->ended() || process->paused()) return;
  world_.Note("trainer paused", static_cast<uint64_t>(rank));
  ++report_.pauses;
  process->Pause();
  world_.After(Pause(800), [process] { process->Continue(); });
  // Held for dead, it is replaced, and wakes up all the same.
  if (world_.Chance(0.5)) {
    world_.After(Pause(300), [this, rank, process] {
      const Trainer& now = trainers_[static_cast<size_t>(rank)];
      if (now.processes.back() == process && !process->ended()) StartTrainer(rank);
    });
  }
}

void SimJob::Mischief() {
  if (mischief_done_++ == plan_.mischief) return network_.Behave();
  const int server = static_cast<int>(world_.Below(static_cast<uint64_t>(plan_.servers)));
  const int rank = static_cast<int>(world_.Below(static_cast<uint64_t>(plan_.trainers)));
  switch (world_.Below(8)) {
    case 0:
    case 1:
    case 2:
      KillServer(server);
      break;
    case 3:
      KillTrainer(rank);
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
        servers_[server]->Handle("SaveCheckpoint", "", [](auto&&...) {});
      break;
    case 7:
      // With an interval a disk that cannot be synced costs more than the interval.
      if (plan_.power && plan_.wal_sync == WalSync::kInterval) break;
      servers_[server]->disk().FullUntil(world_.Now() + Pause(300));
      break;
  }
  world_.After(Pause(40), [this] { Mischief(); });
}

void SimJob::CheckServers() {
  const bool sync = plan_.mode == ShardMode::kSync;
  std::vector<ShardImage> images;
  for (int i = 0; i < plan_.servers && report_.failure.empty(); ++i) {
    SimServer& server = *servers_[i];
    const StatusOr<ShardImage> before = server.shard().Image();
    server.Kill(plan_.power);  // all is long synced, where anything is
    StartServer(i);
    const StatusOr<ShardImage> image = server.shard().Image();
    if (!image.ok()) return Fail(absl::StrFormat("server %d: %s", i, ToString(image.status())));
    report_.parameters.push_back(ParametersOf(*image));
    if (before.ok() && ParametersOf(*before) != report_.parameters.back()) {
      Fail(absl::StrFormat("server %d comes back with other parameters than it had", i));
    }
    const std::string wrong = sync ? "" : CheckOrder(*image, server.disk());
    if (!wrong.empty()) Fail(absl::StrFormat("server %d: %s", i, wrong));
    images.push_back(*image);
  }
  if (report_.failure.empty()) report_.failure = ledger_.Check(images, /*all=*/sync);
}

SimReport SimJob::Run() {
  for (int i = 0; i < plan_.servers; ++i) StartServer(i);
  for (int r = 0; r < plan_.trainers; ++r) StartTrainer(r);
  if (plan_.mischief > 0) world_.After(Pause(20), [this] { Mischief(); });
  const Time begin = world_.Now(), end = begin + std::chrono::hours(2);
  if (!world_.RunUntil([this] { return Done(); }, end)) {
    Fail("the job does not end");
  }
  const auto all_up = [this] {
    return std::all_of(servers_.begin(), servers_.end(), [](auto& s) { return s->alive(); });
  };
  if (report_.failure.empty()) {
    mischief_done_ = plan_.mischief;
    world_.RunUntil(all_up, end);
    // What is under way comes to its end: trainers that wake up are refused, logs are written.
    world_.RunUntil([] { return false; }, world_.Now() + seconds(5));
    CheckServers();
  }
  report_.seconds = Seconds(world_.Now() - begin);
  report_.trace_hash = world_.trace_hash();
  report_.trace = world_.trace();
  return report_;
}

}  // namespace

SimPlan PlanOf(uint64_t seed, ShardMode mode) {
  SimWorld chance(StreamKey(seed, "plan"));
  SimPlan plan{.seed = seed, .mode = mode};
  plan.servers = 1 + static_cast<int>(chance.Below(3));
  plan.trainers = 1 + static_cast<int>(chance.Below(3));
  plan.steps = 10 + static_cast<int>(chance.Below(20));
  constexpr WalSync kSyncs[] = {WalSync::kAlways, WalSync::kAlways, WalSync::kInterval,
                                WalSync::kNone};
  plan.wal_sync = kSyncs[chance.Below(4)];
  // A sync job does not survive the loss of acknowledged steps: servers would be steps apart.
  plan.power = plan.wal_sync == WalSync::kAlways ||
               (plan.wal_sync == WalSync::kInterval && mode == ShardMode::kASync);
  plan.log_bytes_max = chance.Chance(0.5) ? 2'000 + chance.Below(20'000) : uint64_t{1} << 40;
  plan.checkpoint_every_steps = chance.Chance(0.5) ? 1 + chance.Below(8) : 0;
  plan.retries = chance.Chance(0.5) ? 3 : 1000;
  plan.push_and_pull = chance.Chance(0.5);
  plan.network.lose = chance.Chance(0.5) ? 0.02 : 0;
  plan.network.repeat = chance.Chance(0.5) ? 0.05 : 0;
  plan.network.dawdle = chance.Chance(0.5) ? 0.02 : 0;
  plan.mischief = 2 + static_cast<int>(chance.Below(14));
  return plan;
}

SimPlan WithoutMischief(SimPlan plan) {
  plan.network = {};
  plan.mischief = 0;
  return plan;
}

SimReport RunJob(const SimPlan& plan) { return SimJob(plan).Run(); }

}  // namespace tandem
