// Tests how the trainers of a simulated job react when buckets move, in situations that random runs
// hardly reach.
#include <array>
#include <set>

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "pserver/shard/global_snapshot_calls.h"
#include "tests/sim/bytes.h"
#include "tests/sim/carrier.h"
#include "tests/sim/process.h"
#include "tests/sim/server.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kServers = 4, kTrainers = 2;
constexpr int kFirstTrainer = 100, kFirstMover = 200;
constexpr char kJob[] = "sim";
constexpr int64_t kHeight = int64_t{1} << 40;

class CarrierAround : public ps::PsChannel {
 public:
  explicit CarrierAround(SimCarrier carrier) : carrier_(std::move(carrier)) {}
  Time Now() const override { return carrier_.Now(); }
  std::unique_ptr<ps::PsEvent> MakeEvent() override { return carrier_.MakeEvent(); }
  void Call(int server, rpc::PserverCall call, codec::EncodedMessage request, Time deadline,
            Take take) override {
    carrier_.Call(server, call, std::move(request), deadline, std::move(take));
  }
  void After(Duration pause, std::function<void()> then) override {
    carrier_.After(pause, std::move(then));
  }
  Status AddServer(int server, const std::string& address) override {
    return carrier_.AddServer(server, address);
  }
  void Abandon(int server) override { carrier_.Abandon(server); }
  void Close() override { carrier_.Close(); }

 private:
  SimCarrier carrier_;
};

// Fails the requests about moves (ExchangeMap) to the servers in `deaf` with DEADLINE_EXCEEDED.
class DeafCarrier final : public CarrierAround {
 public:
  DeafCarrier(SimCarrier carrier, const std::set<int>& deaf)
      : CarrierAround(std::move(carrier)), deaf_(deaf) {}
  void Call(int server, rpc::PserverCall call, codec::EncodedMessage request, Time deadline,
            Take take) override {
    if (call != rpc::PserverCall::kExchangeMap || !deaf_.contains(server)) {
      return CarrierAround::Call(server, call, std::move(request), deadline, std::move(take));
    }
    After(milliseconds(1), [take] { take(DeadlineExceeded("not heard"), {}); });
  }

 private:
  const std::set<int>& deaf_;
};

// When a server rejects a push of the client for the first time, calls `meanwhile`. The client gets
// the rejection only when `meanwhile` calls `then`.
class LateCarrier final : public CarrierAround {
 public:
  using Meanwhile = std::function<void(const std::string& push, std::function<void()> then)>;
  LateCarrier(SimCarrier carrier, Meanwhile meanwhile)
      : CarrierAround(std::move(carrier)), meanwhile_(std::move(meanwhile)) {}
  void Call(int server, rpc::PserverCall call, codec::EncodedMessage request, Time deadline,
            Take take) override {
    const std::string push = call == rpc::PserverCall::kPush ? Flat(request) : "";
    CarrierAround::Call(
        server, call, std::move(request), deadline,
        [this, push, take = std::move(take)](const Status& status, codec::Fragments answer) {
          if (push.empty() || status.code() != StatusCode::kOutOfRange || meanwhile_ == nullptr) {
            return take(status, answer);
          }
          std::exchange(meanwhile_, nullptr)(push, [take, status] { take(status, {}); });
        });
  }

 private:
  Meanwhile meanwhile_;
};

// Delays the first rejection of a push by server `server` for 50 ms.
class TurnCarrier final : public CarrierAround {
 public:
  TurnCarrier(SimCarrier carrier, int server) : CarrierAround(std::move(carrier)), late_(server) {}
  void Call(int server, rpc::PserverCall call, codec::EncodedMessage request, Time deadline,
            Take take) override {
    const bool push = call == rpc::PserverCall::kPush && server == late_;
    CarrierAround::Call(
        server, call, std::move(request), deadline,
        [this, push, take = std::move(take)](const Status& status, codec::Fragments a) {
          if (!push || status.code() != StatusCode::kOutOfRange || over_) {
            return take(status, a);
          }
          over_ = true;
          After(milliseconds(50), [take, status] { take(status, {}); });
        });
  }

 private:
  const int late_;
  bool over_ = false;
};

class SimMovesTest : public testing::Test {
 protected:
  SimMovesTest() : world_(1), network_(world_, {}) {
    for (int i = 0; i < kServers; ++i) {
      servers_.push_back(std::make_unique<SimServer>(
          i, SimServerOptions{.job = kJob, .trainers = kTrainers}, world_));
      addresses_.push_back("server-" + std::to_string(i));
      EXPECT_TRUE(servers_.back()->Start().ok());
    }
  }
  ~SimMovesTest() override {
    for (auto& p : processes_) p->Kill();
    for (auto& server : servers_) {
      if (server->alive()) server->Kill(false);
    }
    world_.Forget();
  }
  SimCarrier MakeCarrier(const std::shared_ptr<SimProcess>& process) {
    return {process, network_, Servers(), /*retries=*/3};
  }
  std::vector<SimAddress*> Servers() {
    std::vector<SimAddress*> all;
    for (auto& server : servers_) all.push_back(server.get());
    return all;
  }
  void Start(int node, const std::function<Status(const std::shared_ptr<SimProcess>&)>& body) {
    const auto process = std::make_shared<SimProcess>(world_, node);
    processes_.push_back(process);
    process->Start([this, node, body, weak = std::weak_ptr(process)] {
      const Status status = body(weak.lock());
      EXPECT_TRUE(status.ok()) << node << ": " << status;
      ended_.insert(node);
    });
  }
  static Status Await(SimProcess& process,
                      const std::function<void(ps::PsClient::DoneVersion)>& begin) {
    struct Waiting {
      std::unique_ptr<ps::PsEvent> ended;
      Status status;
    };
    const auto waiting = std::make_shared<Waiting>(Waiting{process.MakeEvent(), OkStatus()});
    begin([waiting](const StatusOr<uint64_t>& version) {
      waiting->status = version.status();
      waiting->ended->Set();
    });
    if (waiting->ended->WaitUntil(process.world().Now() + seconds(200))) return waiting->status;
    return DeadlineExceeded("a call did not end");
  }
  // Blocks until the test allows this trainer to continue with step `step`.
  void AwaitLeave(SimProcess& process, uint64_t step) {
    reached_[static_cast<size_t>(process.node() - kFirstTrainer)] = step;
    while (!process.dead() && step >= allowed_) {
      process.MakeEvent()->WaitUntil(world_.Now() + milliseconds(10));
    }
  }
  // Makes `kSteps` steps. Each step pulls a row of the server with this trainer's number. After
  // that, it pushes gradients of that row and of the weights, and pulls the weights.
  Status Train(const std::shared_ptr<SimProcess>& process) {
    ps::PsOptions options;
    options.job = kJob;
    options.trainer = process->node() - kFirstTrainer;
    options.trainers = kTrainers;
    options.incarnation = 1;
    options.partition.min_block_size = 1;
    std::vector<float> weights(kServers * 4, 1.0f), row(1), minus_one(weights.size(), -1.0f);
    const auto client =
        ps::PsClient::Over(carrier_(MakeCarrier(process), options.trainer), addresses_, options);
    TD_RETURN_IF_ERROR(client
                           ->Configure({{"w", Shape{kServers, 4}}}, ps::PsMode::kSync, {},
                                       {{.variable = "rows", .height = kHeight, .dim = 1}})
                           .status());
    const std::vector<ps::PsTensor> all = {
        {"w", weights.data(), static_cast<int64_t>(weights.size())}};
    TD_RETURN_IF_ERROR(client->InitOrFetch(all).status());
    const std::vector<int64_t> ids = {RowOf(options.trainer)};
    for (uint64_t step = 0; step < kSteps; ++step) {
      AwaitLeave(*process, step);
      TD_RETURN_IF_ERROR(Await(*process, [&](const auto& done) {
        client->PullRows({.version = step, .exactly = true}, {{"rows", ids, {row.data()}}}, done);
      }));
      AwaitLeave(*process, step + (step == kMoved ? 1 : 0));
      TD_RETURN_IF_ERROR(Await(*process, [&](const auto& done) {
        client->PushPull(step, 1.0f, {{"w", minus_one.data(), all[0].numel}}, {.version = step + 1},
                         all, done, {{"rows", ids, minus_one.data()}});
      }));
    }
    EXPECT_THAT(weights, testing::Each(1.0f + kTrainers * kSteps));
    return client->Complete();
  }
  // Returns the id of a row in bucket BucketOf(server), the bucket that the tests move from the
  // server.
  static int64_t RowOf(int server) {
    const int bucket = BucketOf(server);
    int64_t id = 0;
    while (RowBucket(static_cast<uint64_t>(id)) != bucket) ++id;
    return id;
  }
  static int BucketOf(int server) { return server * kRowBuckets / kServers; }
  Status Move(const std::shared_ptr<SimProcess>& process, int source, int target) {
    SimCarrier carrier = MakeCarrier(process);
    ps::BucketMigrator mover(carrier, addresses_, {.job = kJob});
    return mover.Run({{source, target, {BucketOf(source)}}}, {});
  }
  bool RunUntil(const std::function<bool()>& done) {
    return world_.RunUntil(done, world_.Now() + seconds(300));
  }
  bool AllReached(uint64_t step) const {
    return std::all_of(reached_.begin(), reached_.end(), [step](uint64_t s) { return s == step; });
  }

  static constexpr uint64_t kMoved = 4, kSteps = 6;
  SimWorld world_;
  SimNetwork network_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<std::string> addresses_;
  std::vector<std::shared_ptr<SimProcess>> processes_;
  std::set<int> ended_;  // nodes of the processes that have ended
  uint64_t allowed_ = kMoved - 1;
  std::array<uint64_t, kTrainers> reached_ = {};
  // For each trainer, the servers to which its requests about moves fail.
  std::array<std::set<int>, kTrainers> deaf_;
  std::function<std::unique_ptr<ps::PsChannel>(SimCarrier, int trainer)> carrier_ =
      [this](SimCarrier carrier, int trainer) {
        return std::make_unique<DeafCarrier>(std::move(carrier),
                                             deaf_[static_cast<size_t>(trainer)]);
      };
};

// Two moves happen before one step, each between two of four servers. Both trainers push this step,
// but each of them knows only one of the moves. The servers of the move that a trainer knows accept
// the trainer's push. These servers cannot complete the step, and thus the pull, before the push of
// the other trainer. The servers of the other move reject the push. The trainer must repartition
// the rejected parts without waiting for the accepted parts.
TEST_F(SimMovesTest, TrainersThatKnowOneEachEndTheStep) {
  for (int t = 0; t < kTrainers; ++t) {
    Start(kFirstTrainer + t, [this](const auto& process) { return Train(process); });
  }
  ASSERT_TRUE(RunUntil([&] { return AllReached(kMoved - 1); }));
  // Both moves take effect before the next step.
  for (int source = 0; source < 2; ++source) {
    Start(kFirstMover + source,
          [this, source](const auto& process) { return Move(process, source, source + 2); });
  }
  world_.RunUntil([] { return false; }, world_.Now() + seconds(1));
  ++allowed_;
  ASSERT_TRUE(RunUntil([&] {
    return AllReached(kMoved) && ended_ == std::set{kFirstMover, kFirstMover + 1};
  }));
  // Each trainer pulls a row that moved with one of the moves, and so learns of this move. Its
  // requests about moves to the servers of the other move fail.
  for (int server = 0; server < kServers; ++server) {
    deaf_[static_cast<size_t>(1 - server % 2)].insert(server);
  }
  ++allowed_;
  ASSERT_TRUE(RunUntil([&] { return AllReached(kMoved + 1); }));
  deaf_ = {};
  const Time begin = world_.Now();
  allowed_ = kSteps;
  ASSERT_TRUE(RunUntil([&] { return ended_.size() == 4; }));
  EXPECT_LT(Seconds(world_.Now() - begin), 5);
}

// Two servers reject their parts of a step in turn. The client does not forward a rejected part
// while another part is in transit. Therefore the client must repartition both parts together.
TEST_F(SimMovesTest, PartsThatAreRefusedInTurnAreCutAnewTogether) {
  carrier_ = [](SimCarrier carrier, int /*trainer*/) {
    return std::make_unique<TurnCarrier>(std::move(carrier), /*server=*/1);
  };
  for (int t = 0; t < kTrainers; ++t) {
    Start(kFirstTrainer + t, [this](const auto& process) { return Train(process); });
  }
  ASSERT_TRUE(RunUntil([&] { return AllReached(kMoved - 1); }));
  Start(kFirstMover, [this](const auto& process) { return Move(process, 0, 1); });
  world_.RunUntil([] { return false; }, world_.Now() + seconds(1));
  const Time begin = world_.Now();
  allowed_ = kSteps;
  ASSERT_TRUE(RunUntil([&] { return ended_.size() == 3; }));
  EXPECT_LT(Seconds(world_.Now() - begin), 5);
}

// A pull of a moved slice must not wait until the new server has made as many updates as the old
// server: in a_sync mode each server has a separate version.
TEST_F(SimMovesTest, ASliceIsPulledAtAServerOfAnotherVersion) {
  constexpr uint64_t kPushes = 5;
  Start(kFirstTrainer, [this](const auto& process) -> Status {
    ps::PsOptions options{.job = kJob, .trainers = kTrainers, .incarnation = 1};
    const auto client =
        ps::PsClient::Over(std::make_unique<SimCarrier>(MakeCarrier(process)), addresses_, options);
    std::vector<float> w = {1, 1, 1, 1};
    const std::vector<float> minus_one(w.size(), -1.0f);
    const std::vector<ps::PsTensor> all = {{"w", w.data(), 4}};
    TD_RETURN_IF_ERROR(client->Configure({{"w", Shape{4}}}, ps::PsMode::kASync, {}).status());
    TD_RETURN_IF_ERROR(client->InitOrFetch(all).status());
    for (uint64_t step = 0; step < kPushes; ++step) {
      TD_RETURN_IF_ERROR(Await(*process, [&](const auto& done) {
        client->Push(step, 1.0f, {{"w", minus_one.data(), 4}}, [done](const Status& status) {
          done(status.ok() ? StatusOr<uint64_t>(0) : status);
        });
      }));
    }
    AwaitLeave(*process, kMoved);
    TD_RETURN_IF_ERROR(
        Await(*process, [&](const auto& done) { client->Pull(kPushes, all, done); }));
    EXPECT_THAT(w, testing::Each(1.0f + kPushes));
    return OkStatus();
  });
  ASSERT_TRUE(RunUntil([&] { return reached_[0] == kMoved; }));
  Start(kFirstMover, [this](const auto& process) -> Status {
    SimCarrier carrier = MakeCarrier(process);
    ps::BucketMigrator mover(carrier, addresses_, {.job = kJob});
    TD_ASSIGN_OR_RETURN(const std::vector<ps::ServedBuckets> servers, mover.Where());
    for (const ps::ServedBuckets& server : servers) {
      if (server.slice_bytes.empty()) continue;
      return mover.Run({{server.server, (server.server + 1) % kServers, {kRowBuckets}}}, {});
    }
    return NotFound("no server has the slice");
  });
  ASSERT_TRUE(RunUntil([&] { return ended_.contains(kFirstMover); }));
  const Time begin = world_.Now();
  allowed_ = kSteps;
  ASSERT_TRUE(RunUntil([&] { return ended_.size() == 2; }));
  EXPECT_LT(Seconds(world_.Now() - begin), 5);
}

// A server was drained and stopped while the trainer was idle. The trainer must find the rows of
// this server without being informed.
TEST_F(SimMovesTest, ATrainerFindsRowsOfAServerThatIsGone) {
  Start(kFirstTrainer, [this](const auto& process) -> Status {
    ps::PsOptions options{.job = kJob, .trainers = kTrainers, .incarnation = 1};
    const auto client =
        ps::PsClient::Over(std::make_unique<SimCarrier>(MakeCarrier(process)), addresses_, options);
    const ps::PsTable rows{.variable = "rows", .height = kHeight, .dim = 1};
    TD_RETURN_IF_ERROR(client->Configure({}, ps::PsMode::kASync, {}, {rows}).status());
    TD_RETURN_IF_ERROR(client->InitOrFetch({}).status());
    AwaitLeave(*process, kMoved);
    // The push has no rows of the stopped server. The client sends such a push to every server,
    // thus also to the stopped one.
    const int64_t other = RowOf(1);
    float row = 1;
    TD_RETURN_IF_ERROR(Await(*process, [&](const auto& done) {
      client->Push(
          0, 1.0f, {},
          [done](const Status& status) { done(status.ok() ? StatusOr<uint64_t>(0) : status); },
          {{"rows", {&other, 1}, &row}});
    }));
    return Await(*process, [&](const auto& done) {
      client->PullRows({}, {{"rows", {RowOf(kServers - 1)}, {&row}}}, done);
    });
  });
  ASSERT_TRUE(RunUntil([&] { return reached_[0] == kMoved; }));
  Start(kFirstMover, [this](const auto& process) -> Status {
    SimCarrier carrier = MakeCarrier(process);
    ps::BucketMigrator mover(carrier, addresses_, {.job = kJob});
    TD_ASSIGN_OR_RETURN(const std::vector<ps::ServedBuckets> servers, mover.Where());
    TD_RETURN_IF_ERROR(mover.Leave(kServers - 1));
    TD_RETURN_IF_ERROR(mover.Run({{kServers - 1, 0, servers.back().buckets}}, {}));
    return mover.Where().status();
  });
  ASSERT_TRUE(RunUntil([&] { return ended_.contains(kFirstMover); }));
  servers_.back()->Kill(false);
  const Time begin = world_.Now();
  allowed_ = kSteps;
  ASSERT_TRUE(RunUntil([&] { return ended_.size() == 2; }));
  // The trainer must not have waited for the deadlines of its calls.
  EXPECT_LT(Seconds(world_.Now() - begin), 5);
}

// A server holds new pushes for a snapshot and rejects one push. A duplicate of this push arrives
// later, and the server accepts it. After that, the bucket moves to another server. The client must
// not send the push again under another number.
TEST_F(SimMovesTest, APushThatIsTakenLateIsNotSentUnderAnotherNumber) {
  Shard& shard = servers_[1]->shard();
  bool late = false;
  const auto meanwhile = [&](const std::string& push, std::function<void()> then) {
    shard.global_snapshots().Release(kJob, 1);
    servers_[1]->Handle(rpc::PserverCall::kPush, push,
                        [&late](const Status& status, const std::string&) { late = status.ok(); });
    Start(kFirstMover, [this, then = std::move(then)](const auto& process) {
      Status moved = Move(process, 1, 0);
      then();
      return moved;
    });
  };
  Start(kFirstTrainer, [&](const auto& process) -> Status {
    ps::PsOptions options{.job = kJob, .trainers = kTrainers, .incarnation = 1};
    const auto client = ps::PsClient::Over(
        std::make_unique<LateCarrier>(MakeCarrier(process), meanwhile), addresses_, options);
    const ps::PsTable rows{.variable = "rows", .height = kHeight, .dim = 1};
    TD_RETURN_IF_ERROR(client->Configure({}, ps::PsMode::kASync, {}, {rows}).status());
    TD_RETURN_IF_ERROR(client->InitOrFetch({}).status());
    EXPECT_TRUE(shard.global_snapshots().Hold(kJob, 1, seconds(100)).ok());
    const int64_t id = RowOf(1);
    const float minus_one = -1;
    float before = 0, after = 0;
    const auto pull = [&](float& row) {
      return Await(*process, [&](const auto& done) {
        client->PullRows({}, {{"rows", {id}, {&row}}}, done);
      });
    };
    TD_RETURN_IF_ERROR(pull(before));
    TD_RETURN_IF_ERROR(Await(*process, [&](const auto& done) {
      client->Push(
          0, 1.0f, {},
          [done](const Status& status) { done(status.ok() ? StatusOr<uint64_t>(0) : status); },
          {{"rows", {&id, 1}, &minus_one}});
    }));
    EXPECT_TRUE(late);
    TD_RETURN_IF_ERROR(pull(after));
    EXPECT_EQ(after, before + 1);
    return OkStatus();
  });
  ASSERT_TRUE(RunUntil([&] { return ended_.size() == 2; }));
}

}  // namespace
}  // namespace tandem::pserver
