// Followers of a table get exactly its rows, whatever happens to the servers: restarts, restores,
// replicas, promotions, moves of rows.
#include "pserver/client/follow/table_follower.h"

#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/grpc_ps_channel.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "pserver/standby.h"
#include "tests/support/followed_rows.h"
#include "tests/unit/pserver/replica_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr Duration kPoll = std::chrono::milliseconds(20);

// A follower, and what it has received.
struct Followed : FollowedRows {
  std::unique_ptr<ps::TableFollower> follower;

  Status Step() {
    TD_ASSIGN_OR_RETURN(const auto change, follower->Next(kPoll));
    if (change) Apply(*change);
    return OkStatus();
  }
};

class FollowTest : public ReplicaTest {
 protected:
  PserverOptions Listening(const std::string& name, int index = 0) const {
    PserverOptions options = OptionsOf(name, index);
    options.rpc.listen = {.path = dir_ + "/socket-" + std::to_string(index)};
    options.rpc.patience = kPatience;
    options.changed_rows_max = changed_rows_max_;
    return options;
  }
  // Starts a server that another process could replace at the same address.
  void Start(const std::string& name, int index = 0) {
    const PserverOptions options = Listening(name, index);
    auto server = Pserver::Start(options, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    if (servers_.size() == static_cast<size_t>(index)) {
      servers_.push_back(nullptr);
      endpoints_.push_back(ToString(options.rpc.listen));
    }
    servers_[static_cast<size_t>(index)] = *std::move(server);
  }
  Followed Follow(const std::vector<std::string>& servers, const std::string& token = "") const {
    return FollowWith(servers, {.table = "emb", .token = token});
  }
  static Followed FollowWith(const std::vector<std::string>& servers, ps::FollowOptions follow) {
    follow.table = "emb";
    auto follower = ps::TableFollower::Connect(servers, {.timeout = kPatience}, std::move(follow));
    CHECK(follower.ok()) << follower.status();
    Followed followed;
    followed.follower = *std::move(follower);
    return followed;
  }
  static RowMap RowsOf(ps::PsClient& client) {
    const auto rows = client.PullTable("emb", /*slots=*/false);
    CHECK(rows.ok()) << rows.status();
    RowMap all;
    for (size_t i = 0; i < rows->ids.size(); ++i) {
      const float* const values = rows->content.data() + i * 4;
      all[rows->ids[i]].assign(values, values + 4);
    }
    return all;
  }
  // Reads changes until the follower has the rows of the servers.
  static void Await(Followed& followed, const RowMap& rows) {
    const Time until = SteadyNow() + kPatience;
    while (followed.rows != rows && SteadyNow() < until) {
      const Status status = followed.Step();
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(followed.rows, rows);
  }
  void PushSome(ps::PsClient& client, uint64_t from, uint64_t to) {
    for (uint64_t step = from; step < to; ++step) {
      PushRows(client, step, static_cast<int64_t>(step * 37 % 900));
    }
  }
  std::unique_ptr<ps::PsClient> ClientOf(const ps::PsTable& table,
                                         const ps::PsOptimizer& optimizer = {"adagrad", {}}) {
    ps::PsOptions options;
    options.patience.retries = 1000;
    options.patience.step_timeout = kPatience;
    auto client = *Client(0, 1, options);
    CHECK(client->Configure({}, ps::PsMode::kASync, optimizer, {table}).ok());
    CHECK(client->InitOrFetch({}).ok());
    return client;
  }

  // Sends a request to server 0. The reply must be OK.
  std::shared_ptr<Answer<FetchChangesReply>> Fetch(const FetchChangesRequest& request) {
    if (channel_ == nullptr) channel_ = *ps::GrpcPsChannel::Connect(endpoints_, {});
    auto answer = std::make_shared<Answer<FetchChangesReply>>();
    channel_->Call(
        0, rpc::PserverCall::kFetchChanges, rpc::EncodedProto(request), SteadyNow() + kPatience,
        [give = answer->Callback(), answer](const Status& status, codec::Fragments bytes) {
          FetchChangesReply reply;
          EXPECT_TRUE(status.ok()) << status;
          if (status.ok()) {
            EXPECT_TRUE(rpc::ParseMessage(bytes, &reply).ok());
          }
          give(std::move(reply));
        });
    return answer;
  }
  void TearDown() override {
    if (channel_ != nullptr) channel_->Close();
  }

  size_t changed_rows_max_ = size_t{1} << 20;
  std::unique_ptr<ps::PsChannel> channel_;
};

TEST_F(FollowTest, AFollowerGetsAllRowsAndThenTheirChanges) {
  Start("a", 0);
  Start("b", 1);
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 100);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  EXPECT_EQ(followed.replaced, static_cast<size_t>(kRowBuckets));
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  const size_t snapshot = followed.received;
  PushSome(*client, 100, 120);
  Await(followed, RowsOf(*client));
  EXPECT_EQ(followed.replaced, static_cast<size_t>(kRowBuckets));
  EXPECT_LE(followed.received, snapshot + 40);  // two rows in each step
}

TEST_F(FollowTest, AFollowerThatIsSlowGetsEachRowOnce) {
  Start("a");
  const auto client = ClientOf(kTable);
  Followed followed = Follow(endpoints_);
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  for (uint64_t step = 0; step < 500; ++step) PushRows(*client, step, 7);
  Await(followed, RowsOf(*client));
  EXPECT_LE(followed.received, 10u);  // two rows, in the few replies that were under way
}

TEST_F(FollowTest, AFollowerContinuesAtItsToken) {
  Start("a", 0);
  Start("b", 1);
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 100);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  const std::string token = followed.follower->token();
  PushSome(*client, 100, 110);
  const std::vector<std::string> reversed = {endpoints_[1], endpoints_[0]};
  Followed next = Follow(reversed, token);
  next.rows = followed.rows;
  Await(next, RowsOf(*client));
  EXPECT_EQ(next.replaced, 0u);
  EXPECT_LE(next.received, 20u);
  // A token that is taken before the first reply is the token that was given.
  Followed idle = Follow(endpoints_, next.follower->token());
  Followed last = Follow(endpoints_, idle.follower->token());
  last.rows = next.rows;
  PushSome(*client, 110, 112);
  Await(last, RowsOf(*client));
  EXPECT_EQ(last.replaced, 0u);
}

// The rows of the snapshot do not fit into a reply, and change meanwhile.
TEST_F(FollowTest, RowsChangeDuringTheSnapshot) {
  Start("a");
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 900);
  auto follower = ps::TableFollower::Connect(endpoints_, {.timeout = kPatience},
                                             {.table = "emb", .token = "", .bytes_max = 100});
  ASSERT_TRUE(follower.ok()) << follower.status();
  Followed followed;
  followed.follower = *std::move(follower);
  for (uint64_t step = 900; step < 1100; ++step) {
    PushSome(*client, step, step + 1);
    ASSERT_TRUE(followed.Step().ok());
    if (step % 20 == 0) {  // continues with another process in the middle of the snapshot
      const std::string token = followed.follower->token();
      followed.follower = *ps::TableFollower::Connect(
          endpoints_, {.timeout = kPatience}, {.table = "emb", .token = token, .bytes_max = 100});
    }
  }
  Await(followed, RowsOf(*client));
}

TEST_F(FollowTest, RemovedRowsAreTold) {
  Start("a");
  ps::PsTable table = kTable;
  table.rules = "ttl=3 shrink_every=4";
  const auto client = ClientOf(table);
  PushRows(*client, 0, 100);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  ASSERT_TRUE(followed.rows.contains(100));
  for (uint64_t step = 1; step < 20; ++step) PushRows(*client, step, 500);
  const RowMap rows = RowsOf(*client);
  ASSERT_FALSE(rows.contains(100));
  Await(followed, rows);
}

TEST_F(FollowTest, AFollowerThatFellTooFarBackGetsAllRowsAgain) {
  changed_rows_max_ = 50;
  Start("a");
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 10);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  PushSome(*client, 10, 200);
  Await(followed, RowsOf(*client));
  EXPECT_EQ(followed.replaced, 2 * static_cast<size_t>(kRowBuckets));
}

TEST_F(FollowTest, AFollowerContinuesAfterAServerRestarts) {
  Start("a", 0);
  Start("b", 1);
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 60);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  servers_[0].reset();  // without a checkpoint
  Start("a", 0);
  PushSome(*client, 60, 70);
  Await(followed, RowsOf(*client));
  EXPECT_EQ(followed.replaced, static_cast<size_t>(kRowBuckets));
}

TEST_F(FollowTest, AFollowerOfARestoredServerHasTheRestoredRows) {
  Start("a");
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 20);
  ASSERT_TRUE(servers_[0]->SaveCheckpoint().ok());
  PushSome(*client, 20, 60);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  ASSERT_EQ(*client->Restore(), 20u);
  Await(followed, RowsOf(*client));
  PushSome(*client, 20, 90);  // other rows than before the restore, in the same versions
  Await(followed, RowsOf(*client));
}

TEST_F(FollowTest, AReplicaAnswersFollowersOfItsPrimary) {
  Start("a");
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 30);
  const auto replica = ReplicaOf(endpoints_[0], "r");
  const std::string address = ReplicaTest::Await(*replica, 30);
  Followed followed = Follow({address});
  Await(followed, RowsOf(*client));
  const std::string token = followed.follower->token();
  PushSome(*client, 30, 50);
  Await(followed, RowsOf(*client));
  // The token of a replica is one of its primary too.
  Followed at_primary = Follow(endpoints_, token);
  const size_t before = at_primary.received;
  at_primary.rows = followed.rows;
  PushSome(*client, 50, 52);
  Await(at_primary, RowsOf(*client));
  EXPECT_EQ(at_primary.replaced, 0u);
  EXPECT_LE(at_primary.received, before + 44);
}

// A replica knows several terms of its primary, so a token from before two restarts is valid.
TEST_F(FollowTest, AFollowerOfAReplicaContinuesAfterTwoRestartsOfThePrimary) {
  Start("a");
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 30);
  const auto replica = ReplicaOf(endpoints_[0], "r");
  const std::string address = ReplicaTest::Await(*replica, 30);
  Followed followed = Follow({address});
  Await(followed, RowsOf(*client));
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  const std::string token = followed.follower->token();
  followed.follower.reset();
  for (const uint64_t step : {30, 40}) {
    servers_[0].reset();
    Start("a");
    PushSome(*client, step, step + 10);
    ReplicaTest::Await(*replica, step + 10);
  }
  Followed later = Follow({address}, token);
  later.rows = followed.rows;
  Await(later, RowsOf(*client));
  EXPECT_EQ(later.replaced, 0u);
}

TEST_F(FollowTest, AFollowerContinuesAfterAPromotion) {
  PserverOptions options = Listening("a");
  options.standbys = 1;
  auto primary = Pserver::Start(options, metrics_);
  ASSERT_TRUE(primary.ok()) << primary.status();
  servers_.push_back(*std::move(primary));
  endpoints_ = {ToString(options.rpc.listen)};
  PserverOptions of_standby = options;
  of_standby.member = 1;
  of_standby.data_dir = dir_ + "/b";
  auto standby = *Standby::Start(of_standby, metrics_);
  ASSERT_EQ(standby->Follow(options.rpc.listen, 1), OkStatus());
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 30);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  servers_[0].reset();
  std::filesystem::remove_all(dir_ + "/a");
  auto promoted = standby->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  servers_[0] = *std::move(promoted);
  PserverOptions of_next = options;
  of_next.data_dir = dir_ + "/c";
  const auto next = *Standby::Start(of_next, metrics_);
  ASSERT_EQ(next->Follow(options.rpc.listen, 1), OkStatus());
  PushSome(*client, 30, 40);
  Await(followed, RowsOf(*client));
  EXPECT_EQ(followed.replaced, static_cast<size_t>(kRowBuckets));
}

TEST_F(FollowTest, RowsMoveBetweenServersWhileTheyAreFollowed) {
  Start("a", 0);
  Start("b", 1);
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 200);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  const auto channel = *ps::GrpcPsChannel::Connect(endpoints_, {});
  ps::BucketMigrator migrator(*channel, endpoints_, {});
  uint64_t step = 200;
  for (const int target : {1, 0, 1}) {
    ps::BucketTransfer transfer{.source = 1 - target, .target = target, .buckets = {}};
    for (int b = 0; b < 100; ++b) transfer.buckets.push_back(b);
    const Status status = migrator.Run({transfer}, [&](const ps::MoveProgress&) {
      PushSome(*client, step, step + 1);
      ++step;
      ASSERT_TRUE(followed.Step().ok());
    });
    ASSERT_TRUE(status.ok()) << status;
    PushSome(*client, step, step + 20);
    step += 20;
    Await(followed, RowsOf(*client));
  }
  channel->Close();
}

// The follower learns the address of a server that joins the job from the others.
TEST_F(FollowTest, AServerThatJoinsLaterIsFollowed) {
  Start("a", 0);
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 200);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  const std::vector<std::string> first = endpoints_;
  Start("b", 1);
  const auto channel = *ps::GrpcPsChannel::Connect(first, {});
  ps::BucketMigrator migrator(*channel, first, {});
  ASSERT_TRUE(migrator.Add(endpoints_[1]).ok());
  ps::BucketTransfer transfer{.source = 0, .target = 1, .buckets = {}};
  for (int b = 0; b < 100; ++b) transfer.buckets.push_back(b);
  const Status status = migrator.Run({transfer}, [](const ps::MoveProgress&) {});
  ASSERT_TRUE(status.ok()) << status;
  PushSome(*client, 200, 220);
  Await(followed, RowsOf(*client));
  // The token has the positions of both servers. The next follower learns the address again.
  Followed next = Follow(first, followed.follower->token());
  next.rows = followed.rows;
  PushSome(*client, 220, 240);
  Await(next, RowsOf(*client));
  EXPECT_EQ(next.replaced, 0u);
  channel->Close();
}

// The move ends after its first call, so the buckets stay where they are after their lease.
// Meanwhile the follower asks for changes, which lack the rows of the frozen buckets.
TEST_F(FollowTest, ACancelledMoveLosesNoChange) {
  Start("a", 0);
  Start("b", 1);
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 200);
  Followed followed = Follow(endpoints_);
  Await(followed, RowsOf(*client));
  const auto channel = *ps::GrpcPsChannel::Connect(endpoints_, {});
  for (uint64_t step = 200; step < 220; ++step) {
    PushSome(*client, step, step + 1);  // the follower does not have these changes yet
    FreezeBucketsRequest request;
    request.set_job("job");
    request.set_target(1);
    request.set_target_address(endpoints_[1]);
    request.set_lease_ms(30);
    for (int b = 0; b < 512; ++b) request.add_bucket(static_cast<uint32_t>(b));
    const auto ended = std::shared_ptr<ps::PsEvent>(channel->MakeEvent());
    channel->Call(0, rpc::PserverCall::kFreezeBuckets, rpc::EncodedProto(request),
                  SteadyNow() + kPatience,
                  [ended](const Status&, codec::Fragments) { ended->Set(); });
    ASSERT_TRUE(ended->WaitUntil(SteadyNow() + kPatience));
    ASSERT_TRUE(followed.Step().ok());
    Await(followed, RowsOf(*client));
  }
  EXPECT_GT(followed.replaced, static_cast<size_t>(kRowBuckets));
  channel->Close();
}

TEST_F(FollowTest, TablesThatCannotBeFollowedAreRefused) {
  const auto error_of = [&](const std::string& table) {
    auto follower =
        ps::TableFollower::Connect(endpoints_, {.timeout = kPatience}, {.table = table});
    CHECK(follower.ok()) << follower.status();
    return (*follower)->Next(kPatience).status();
  };
  {
    PserverOptions unlogged;
    unlogged.job = "job";
    StartServers(1, unlogged);
    const auto client = ClientOf(kTable);
    EXPECT_EQ(error_of("emb").code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(ToString(error_of("emb")), HasSubstr("[TD4036]"));
    servers_.clear();
    endpoints_.clear();
  }
  Start("a");
  const auto client = ClientOf(kTable, {"adam", {}});
  EXPECT_EQ(error_of("emb").code(), StatusCode::kUnimplemented);
  EXPECT_THAT(ToString(error_of("emb")), HasSubstr("[TD4036]"));
  EXPECT_EQ(error_of("none").code(), StatusCode::kNotFound);
}

TEST_F(FollowTest, TokensOfOthersAreRefused) {
  Start("a");
  const auto client = ClientOf(kTable);
  Followed followed = Follow(endpoints_);
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  const std::string token = followed.follower->token();
  const auto connect = [&](const std::string& table, const std::string& with) {
    return ps::TableFollower::Connect(endpoints_, {.timeout = kPatience},
                                      {.table = table, .token = with})
        .status();
  };
  EXPECT_THAT(ToString(connect("other", token)), HasSubstr("[TD4037]"));
  EXPECT_THAT(ToString(connect("emb", "damaged")), HasSubstr("[TD4037]"));
  EXPECT_TRUE(connect("emb", token).ok());
  const Status other_format =
      ps::TableFollower::Connect(
          endpoints_, {.timeout = kPatience},
          {.table = "emb", .token = token, .format = codec::RowFormat::kInt8})
          .status();
  EXPECT_THAT(ToString(other_format), HasSubstr("travelled as f32, expected int8 [TD4037]"));
}

TEST_F(FollowTest, AFollowerOfSomeBucketsGetsOnlyTheirRows) {
  Start("a", 0);
  Start("b", 1);
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 100);
  ps::FollowOptions half;
  half.bucket_begin = 100;
  half.bucket_end = 612;
  Followed followed = FollowWith(endpoints_, half);
  const auto rows_of_half = [&] {
    RowMap rows = RowsOf(*client);
    std::erase_if(rows, [](const auto& row) {
      return RowBucket(row.first) < 100 || RowBucket(row.first) >= 612;
    });
    return rows;
  };
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  Await(followed, rows_of_half());
  EXPECT_EQ(followed.replaced, 512u);
  PushSome(*client, 100, 150);
  Await(followed, rows_of_half());
  // A follower of all buckets continues at the token, and gets the other buckets whole.
  Followed all = Follow(endpoints_, followed.follower->token());
  all.rows = followed.rows;
  Await(all, RowsOf(*client));
  EXPECT_EQ(all.replaced, 512u);
  half.bucket_end = 100;
  EXPECT_THAT(ToString(ps::TableFollower::Connect(endpoints_, {}, half).status()),
              HasSubstr("row buckets [100, 100) are not possible"));
}

// The score of a row is the number of its gradients here.
TEST_F(FollowTest, AFollowerOfAMinimumScoreGetsRowsThatReachIt) {
  Start("a");
  const auto client = ClientOf(kTable);
  for (uint64_t step = 0; step < 3; ++step) PushRows(*client, step, 10);
  PushRows(*client, 3, 200);
  ps::FollowOptions follow;
  follow.score_min = 3;
  Followed followed = FollowWith(endpoints_, follow);
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  const auto ids = [&] {
    std::vector<uint64_t> found;
    for (const auto& row : followed.rows) found.push_back(row.first);
    return found;
  };
  EXPECT_THAT(ids(), testing::ElementsAre(10, 11));
  // A row below the minimum counts as removed.
  PushRows(*client, 4, 200);
  const auto below = followed.follower->Next(kPatience);
  ASSERT_TRUE(below.ok() && below->has_value()) << below.status();
  EXPECT_THAT((*below)->ids, IsEmpty());
  EXPECT_THAT((*below)->removed, testing::ElementsAre(200, 201));
  PushRows(*client, 5, 200);
  const Time until = SteadyNow() + kPatience;
  while (followed.rows.size() < 4 && SteadyNow() < until) ASSERT_TRUE(followed.Step().ok());
  EXPECT_EQ(followed.rows, RowsOf(*client));
  // Rows that were left out would be missing with another minimum.
  follow.score_min = 1;
  follow.token = followed.follower->token();
  follow.table = "emb";
  EXPECT_THAT(ToString(ps::TableFollower::Connect(endpoints_, {}, follow).status()),
              HasSubstr("rows with another minimum score [TD4037]"));
}

// The server looks at few rows under the lock of its shard, also if the filter leaves out all.
TEST_F(FollowTest, AFilterLimitsTheRowsThatAreExamined) {
  Start("a");
  ps::PsTable table = kTable;
  table.height = 300'000;
  const auto client = ClientOf(table);
  std::vector<int64_t> ids(static_cast<size_t>(table.height));
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<float> ones(ids.size() * 4, 1.0f);
  Answer<Status> pushed;
  client->Push(0, 0.1f, {}, pushed.Callback(), {{"emb", ids, ones.data()}});
  ASSERT_TRUE(pushed.Get().ok());
  FetchChangesRequest request;
  request.set_job("job");
  request.set_table("emb");
  request.set_min_score(1000);
  *request.mutable_position() = Fetch(request)->Get().position();
  for (uint32_t b = 0; b < kRowBuckets; ++b) request.add_bucket(b);
  const FetchChangesReply reply = Fetch(request)->Get();
  EXPECT_EQ(reply.id_size(), 0);
  EXPECT_GT(reply.bucket_size(), 0);
  EXPECT_LE(reply.bucket_size(), 8192 / (300'000 / kRowBuckets) + 2);
}

TEST_F(FollowTest, RowsTravelInFewerBytes) {
  Start("a");
  const auto client = ClientOf(kTable);
  PushSome(*client, 0, 200);
  const RowMap rows = RowsOf(*client);
  for (const auto format : {codec::RowFormat::kBF16, codec::RowFormat::kInt8}) {
    ps::FollowOptions follow;
    follow.format = format;
    Followed followed = FollowWith(endpoints_, follow);
    while (!followed.current) ASSERT_TRUE(followed.Step().ok());
    ASSERT_EQ(followed.rows.size(), rows.size());
    for (const auto& [id, values] : rows) {
      const std::vector<float>& got = followed.rows.at(id);
      float most = 0;
      for (const float v : values) most = std::max(most, std::fabs(v));
      for (size_t i = 0; i < values.size(); ++i) {
        const float bound =
            format == codec::RowFormat::kBF16 ? std::fabs(values[i]) / 256 : most / 254 * 1.0001f;
        ASSERT_LE(std::fabs(got[i] - values[i]), bound) << id;
      }
    }
    EXPECT_NE(followed.rows, rows);
  }
}

// A server holds the request of a follower that is current until there are changes.
TEST_F(FollowTest, AServerHoldsRequestsWithoutChanges) {
  Start("a");
  const auto client = ClientOf(kTable);
  PushRows(*client, 0, 5);
  FetchChangesRequest request;
  request.set_job("job");
  request.set_table("emb");
  FetchChangesReply reply = Fetch(request)->Get();
  *request.mutable_position() = reply.position();
  // The server replies at once if the caller does not know its buckets.
  request.set_wait_ms(20'000);
  Time begin = SteadyNow();
  reply = Fetch(request)->Get();
  EXPECT_EQ(reply.id_size(), 0);
  *request.mutable_known() = reply.served();
  request.set_wait_ms(300);
  begin = SteadyNow();
  EXPECT_EQ(Fetch(request)->Get().id_size(), 0);
  EXPECT_GE(SteadyNow() - begin, std::chrono::milliseconds(290));
  request.set_wait_ms(20'000);
  begin = SteadyNow();
  const auto held = Fetch(request);
  PushRows(*client, 1, 7);
  reply = held->Get();
  EXPECT_THAT(reply.id(), testing::ElementsAre(7, 8));
  EXPECT_LT(SteadyNow() - begin, std::chrono::seconds(10));
}

TEST_F(FollowTest, AServerThatDoesNotReturnIsNamed) {
  Start("a");
  const auto client = ClientOf(kTable);
  auto follower = ps::TableFollower::Connect(
      endpoints_, {.timeout = std::chrono::milliseconds(500)}, {.table = "emb"});
  ASSERT_TRUE(follower.ok()) << follower.status();
  Followed followed;
  followed.follower = *std::move(follower);
  while (!followed.current) ASSERT_TRUE(followed.Step().ok());
  servers_[0].reset();
  const Time until = SteadyNow() + kPatience;
  Status status;
  while (status.ok() && SteadyNow() < until) status = followed.Step();
  EXPECT_THAT(ToString(status), HasSubstr("pserver 0"));
  Start("a");  // the follower may go on
  PushRows(*client, 0, 5);
  const RowMap rows = RowsOf(*client);
  while (followed.rows != rows && SteadyNow() < until) (void)followed.Step();
  EXPECT_EQ(followed.rows, rows);
}

}  // namespace
}  // namespace tandem::pserver
