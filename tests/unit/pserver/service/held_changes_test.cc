// A server holds the requests of followers without changes: it reads each again seldom, however
// fast the version increases, and keeps the position up to which it has read.
#include "pserver/service/held_changes.h"

#include <atomic>
#include <thread>

#include "common/threads/runner.h"
#include "gmock/gmock.h"
#include "proto/pserver.pb.h"
#include "pserver/replication/state_history.h"
#include "pserver/service/deadline_driver.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPatience = seconds(20);

// Counts the reads after the first one.
class CountingRunner final : public Runner {
 public:
  Status Post(std::function<void()> work) override {
    ++posts;
    return pool_.Post(std::move(work));
  }
  std::atomic<int> posts = 0;

 private:
  ThreadPool pool_{"reader", 1, 4096};
};

// The reply to one request.
struct Waiting {
  FetchChangesReply reply;
  std::shared_ptr<HeldChanges::Call> call;
  std::atomic<bool> done = false;
  Status status;
};

class HeldChangesTest : public ShardFixture {
 protected:
  // Starts a server that remembers this number of changed rows.
  void Start(size_t changed_rows = 1'000'000) {
    Shard::Options options;
    options.table_memory.changed_rows = changed_rows;
    shard_ = std::make_unique<Shard>(std::move(options), real_, backend_, device_, metrics_);
    ShardConfig config = Config(1, UpdatePolicy::kASync);
    config.tables = {{.variable = "emb",
                      .shape = Shape{100'000, 2},
                      .init = {graph::Init::kUniform, -1, 1},
                      .seed = 3,
                      .bucket_begin = 0,
                      .bucket_end = kRowBuckets,
                      .rules = {}}};
    ASSERT_TRUE(shard_->Configure(Rank(0), config).ok());
    std::vector<SliceValues> params;
    for (const SliceSpec& s : config.slices) {
      params.push_back({s.variable, s.offset, s.numel, FloatBuffer({1, 1, 1, 1})});
    }
    const auto whole = shard_->InitParams(
        Rank(0), 0, params, {}, {{.variable = "emb", .ids = {}, .content = {}, .last = true}});
    ASSERT_TRUE(whole.ok() && *whole) << whole.status();
    deadlines_ = std::make_unique<DeadlineDriver>(*shard_, real_);
    history_.OnStep({7, 1, 0}, 0);
    held_ = std::make_unique<HeldChanges>(&history_, *shard_, *deadlines_, runner_);
    for (uint64_t id = 0; inside_.empty() || outside_.size() < 20; ++id) {
      (RowBucket(id) == kBucket ? inside_ : outside_).push_back(id);
    }
    Push({inside_[0]});
  }
  void TearDown() override {
    shard_->Shutdown();
    held_.reset();
  }
  // Pushes ones to rows.
  void Push(const std::vector<uint64_t>& ids) {
    const auto n = static_cast<int64_t>(ids.size());
    PushHead head{{Rank(0), ++sequence_, sequence_, 0.5f}, {}};
    head.slices = {{"emb", 0, {DType::kI64, Shape{n}}}, {"emb", 0, {DType::kF32, Shape{n, 2}}}};
    StatusOr<PushTicket> ticket = shard_->AdmitPush(head);
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    std::memcpy(ticket->buffers[0].mutable_data(), ids.data(), ids.size() * sizeof(uint64_t));
    auto* const out = reinterpret_cast<float*>(ticket->buffers[1].mutable_data());
    std::fill(out, out + 2 * n, 1.0f);
    const auto pushed = shard_->Push(head, *std::move(ticket));
    ASSERT_TRUE(pushed.ok()) << pushed.status();
  }
  FetchChangesRequest Request(uint32_t wait_ms) {
    FetchChangesRequest request;
    request.set_job("job");
    request.set_table("emb");
    request.set_bucket_begin(kBucket);
    request.set_bucket_end(kBucket + 1);
    const FetchChangesReply first = Ask(request)->reply;
    *request.mutable_position() = first.position();
    *request.mutable_known() = first.served();
    request.set_wait_ms(wait_ms);
    return request;
  }
  std::shared_ptr<Waiting> Ask(const FetchChangesRequest& request) {
    auto waiting = std::make_shared<Waiting>();
    waiting->call = held_->Make(request, &waiting->reply);
    held_->Answer(waiting->call, [waiting](const Status& status) {
      waiting->status = status;
      waiting->done = true;
    });
    return waiting;
  }
  template <typename Condition>
  static bool Await(const Condition& condition) {
    const Time until = SteadyNow() + kPatience;
    while (!condition() && SteadyNow() < until) std::this_thread::yield();
    return condition();
  }

  static constexpr int kBucket = 5;  // the bucket that is followed

  RealClock real_;
  CountingRunner runner_;
  ReplicaHistory history_;
  std::unique_ptr<DeadlineDriver> deadlines_;
  std::unique_ptr<HeldChanges> held_;
  std::vector<uint64_t> inside_, outside_;  // ids of rows in and outside of kBucket
  uint64_t sequence_ = 0;
};

TEST_F(HeldChangesTest, ARequestIsReadAgainSeldom) {
  Start();
  const auto waiting = Ask(Request(20'000));
  ASSERT_EQ(held_->held(), 1u);
  const Time begin = SteadyNow();
  for (int pushes = 0; pushes < 300; ++pushes) {
    Push({outside_[0]});
    ASSERT_TRUE(Await([&] { return SteadyNow() >= begin + milliseconds(pushes); }));
  }
  const auto passed = SteadyNow() - begin;
  EXPECT_LE(runner_.posts, passed / HeldChanges::kPause + 2);
  EXPECT_GT(runner_.posts, 0);
  EXPECT_FALSE(waiting->done);
  Push({inside_[0]});
  ASSERT_TRUE(Await([&] { return waiting->done.load(); }));
  ASSERT_TRUE(waiting->status.ok()) << waiting->status;
  EXPECT_THAT(waiting->reply.id(), testing::ElementsAre(inside_[0]));
}

// Other readers use all waits of the shard.
TEST_F(HeldChangesTest, ARequestIsReadAgainSeldomIfTooManyReadersWait) {
  Start();
  PullQuery query;
  query.caller.job = shard_->Job();
  query.observer = query.version_only = true;
  query.min_version = 1'000'000;
  std::atomic<int> waiting_pulls = 1100;
  for (int i = waiting_pulls; i > 0; --i) {
    shard_->Pull(
        query, deadlines_->After(60'000),
        [&waiting_pulls](const StatusOr<PullResult>&) { --waiting_pulls; }, nullptr);
  }
  EXPECT_EQ(waiting_pulls, 1024);
  const auto waiting = Ask(Request(60'000));
  const Time begin = SteadyNow();
  ASSERT_TRUE(Await([&] { return SteadyNow() >= begin + milliseconds(500); }));
  EXPECT_EQ(runner_.posts, 0);
  Push({inside_[0]});
  ASSERT_TRUE(Await([&] { return waiting->done.load(); }));
  EXPECT_THAT(waiting->reply.id(), testing::ElementsAre(inside_[0]));
  shard_->Shutdown();  // ends the pulls, which use variables of this function
  ASSERT_TRUE(Await([&] { return waiting_pulls == 0; }));
}

// The server remembers 100 changed rows. Other rows change more often than that meanwhile.
TEST_F(HeldChangesTest, AHeldRequestKeepsThePositionUpToWhichItWasRead) {
  Start(/*changed_rows=*/100);
  const auto waiting = Ask(Request(20'000));
  for (int i = 0; i < 20; ++i) {
    const int before = runner_.posts;
    Push({outside_.begin(), outside_.begin() + 20});
    ASSERT_TRUE(Await([&] { return runner_.posts > before && held_->held() == 1; }));
  }
  Push({inside_[0]});
  ASSERT_TRUE(Await([&] { return waiting->done.load(); }));
  EXPECT_FALSE(waiting->reply.restart());
  EXPECT_THAT(waiting->reply.id(), testing::ElementsAre(inside_[0]));
  EXPECT_EQ(waiting->reply.position().version(), waiting->reply.version());
}

TEST_F(HeldChangesTest, ARequestWithoutAWaitIsAnsweredAtOnce) {
  Start();
  const auto waiting = Ask(Request(0));
  EXPECT_TRUE(waiting->done);
  EXPECT_TRUE(waiting->status.ok()) << waiting->status;
  EXPECT_EQ(waiting->reply.id_size(), 0);
}

TEST_F(HeldChangesTest, AHeldRequestEndsAtItsTimeLimit) {
  Start();
  const Time begin = SteadyNow();
  const auto waiting = Ask(Request(50));
  EXPECT_FALSE(waiting->done);
  ASSERT_TRUE(Await([&] { return waiting->done.load(); }));
  EXPECT_TRUE(waiting->status.ok()) << waiting->status;
  EXPECT_GE(SteadyNow() - begin, milliseconds(50));
  EXPECT_LT(SteadyNow() - begin, seconds(10));
}

TEST_F(HeldChangesTest, TheNumberOfHeldRequestsIsLimited) {
  Start();
  const FetchChangesRequest request = Request(60'000);
  std::vector<std::shared_ptr<Waiting>> all;
  for (size_t i = 0; i < HeldChanges::kHeldMax; ++i) all.push_back(Ask(request));
  EXPECT_EQ(held_->held(), HeldChanges::kHeldMax);
  EXPECT_TRUE(Ask(request)->done) << "at once";
  held_->Leave(all[0]->call);
  EXPECT_EQ(all[0]->status.code(), StatusCode::kCancelled);
  const auto next = Ask(request);
  EXPECT_FALSE(next->done);
  Push({inside_[0]});
  all.push_back(next);
  all.erase(all.begin());
  for (const auto& waiting : all) {
    ASSERT_TRUE(Await([&] { return waiting->done.load(); }));
    EXPECT_EQ(waiting->reply.id_size(), 1);
  }
}

// The end of the server ends all requests.
TEST_F(HeldChangesTest, ShutdownEndsHeldRequests) {
  Start();
  const auto waiting = Ask(Request(60'000));
  shard_->Shutdown();
  ASSERT_TRUE(Await([&] { return waiting->done.load(); }));
  EXPECT_FALSE(waiting->status.ok());
}

}  // namespace
}  // namespace tandem::pserver
