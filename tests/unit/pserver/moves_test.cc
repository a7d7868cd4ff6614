// Buckets of rows that move between two shards: rows, slots, marks, leases, what comes back from a
// log and from a checkpoint, and who is refused.
#include <cstring>

#include "common/tensor/row_buckets.h"
#include "gmock/gmock.h"
#include "proto/pserver.pb.h"
#include "pserver/bucket_move.h"
#include "pserver/client/mover.h"
#include "pserver/move_calls.h"
#include "tests/sim/bytes.h"
#include "tests/unit/pserver/shard_fixture.h"

namespace tandem {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kDim = 3, kHeight = 1 << 20;
constexpr uint64_t kIncarnation = 7;

// An id of a bucket: the `n`-th one.
uint64_t IdIn(int bucket, int n = 0) {
  for (uint64_t id = 0;; ++id) {
    if (RowBucket(id) == bucket && n-- == 0) return id;
  }
}

class MovesTest : public testing::Test {
 protected:
  static ShardConfig Config(int server, int servers, const std::string& optimizer = "momentum") {
    ShardConfig config{.job = "job", .trainers = 2, .mode = ShardMode::kASync};
    config.optimizer = {optimizer, {}};
    if (optimizer == "momentum") config.optimizer.attrs["mu"] = 0.9;
    config.tables = {{.variable = "emb",
                      .shape = Shape{kHeight, kDim},
                      .init = {Init::kUniform, -1, 1},
                      .seed = 3,
                      .bucket_begin = FirstBucket(server, servers),
                      .bucket_end = FirstBucket(server + 1, servers),
                      .rules = {}}};
    return config;
  }
  std::unique_ptr<Shard> Make(int index) {
    return std::make_unique<Shard>(Shard::Options{.index = index, .bug = bug_}, clock_, backend_,
                                   device_, metrics_);
  }
  std::unique_ptr<Shard> Start(int index, int servers, const std::string& optimizer = "momentum") {
    auto shard = Make(index);
    const ShardConfig config = Config(index, servers, optimizer);
    for (int t : {0, 1}) {
      EXPECT_TRUE(shard->Configure({"job", t, kIncarnation}, config).ok());
    }
    const auto whole =
        shard->InitParams({"job", 0, kIncarnation}, 0, {}, {},
                          {{.variable = "emb", .ids = {}, .content = {}, .last = true}});
    EXPECT_TRUE(whole.ok() && *whole) << whole.status();
    return shard;
  }
  static PushHead Head(uint64_t sequence, size_t rows, uint64_t generation = 0, int trainer = 0) {
    const auto n = static_cast<int64_t>(rows);
    PushHead head{{"job", trainer, kIncarnation}, sequence, sequence, 0.5f, {}};
    head.slices = {{"emb", 0, {DType::kI64, Shape{n}}}, {"emb", 0, {DType::kF32, Shape{n, kDim}}}};
    head.generation = generation;
    return head;
  }
  // Every value of the gradient is `value`.
  static StatusOr<PushOutcome> Push(Shard& shard, const PushHead& head,
                                    const std::vector<uint64_t>& ids, float value = 1) {
    TD_ASSIGN_OR_RETURN(PushTicket ticket, shard.AdmitPush(head));
    if (!ticket.duplicate) {
      std::memcpy(ticket.buffers[0].get(), ids.data(), ids.size() * sizeof(uint64_t));
      auto* const values = reinterpret_cast<float*>(ticket.buffers[1].get());
      std::fill_n(values, ids.size() * kDim, value);
    }
    return shard.Push(head, std::move(ticket));
  }
  StatusOr<std::vector<float>> Pull(Shard& shard, const std::vector<uint64_t>& ids) {
    StatusOr<std::vector<float>> rows = Internal("not answered");
    PullQuery query{.caller = {"job", 0, 0}, .observer = true, .ranges = {}, .at_version = {}};
    query.rows = {{"emb", ids}};
    shard.Pull(query, clock_.Now() + seconds(1), [&rows](const StatusOr<PullResult>& result) {
      if (!result.ok()) return void(rows = result.status());
      const auto* const v = reinterpret_cast<const float*>(result->slices[0].values.get());
      rows = std::vector<float>(v, v + result->slices[0].numel);
    });
    return rows;
  }
  StatusOr<BucketParcel> Freeze(Shard& shard, const std::vector<int>& buckets, int target) {
    return shard.FreezeBuckets("job", buckets, target, "host:1", seconds(2));
  }
  static Status Tell(Shard& shard, const BucketMap& map) {
    return shard.ExchangeMap({"job", 0, 0}, /*observer=*/true, map).status();
  }
  Status Move(Shard& from, Shard& to, const std::vector<int>& buckets, int target) {
    TD_ASSIGN_OR_RETURN(const BucketParcel parcel, Freeze(from, buckets, target));
    TD_RETURN_IF_ERROR(to.OfferBuckets("job", parcel));
    TD_ASSIGN_OR_RETURN(const BucketMap map, from.ReleaseBuckets("job", parcel.moves));
    return Tell(to, map);
  }

  ShardBug bug_ = ShardBug::kNone;
  FakeClock clock_;
  Metrics metrics_;
  CpuDevice device_;
  Backend backend_ = Backend::Cpu();
};

TEST_F(MovesTest, RowsAndSlotsMoveAndGoOnInTheSameBits) {
  const auto a = Start(0, 2), b = Start(1, 2), alone = Start(0, 1);
  const std::vector<uint64_t> ids = {IdIn(5), IdIn(5, 1)};
  std::vector<uint64_t> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  for (uint64_t s = 1; s <= 3; ++s) {
    ASSERT_TRUE(Push(*a, Head(s, 2), sorted).ok());
    ASSERT_TRUE(Push(*alone, Head(s, 2), sorted).ok());
  }
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  EXPECT_EQ(*Pull(*b, sorted), *Pull(*alone, sorted));
  for (uint64_t s = 4; s <= 6; ++s) {
    ASSERT_TRUE(Push(*b, Head(s, 2), sorted).ok());
    ASSERT_TRUE(Push(*alone, Head(s, 2), sorted).ok());
  }
  EXPECT_EQ(*Pull(*b, sorted), *Pull(*alone, sorted));
  EXPECT_EQ(a->Info().tables[0].rows, 0u);
  EXPECT_EQ(b->Info().tables[0].rows, 2u);
  EXPECT_EQ(a->Info().buckets, 511u);
  EXPECT_EQ(b->Info().buckets, 513u);
  EXPECT_EQ(b->Info().map_version, 1u);
  const auto gone = Pull(*a, sorted);
  EXPECT_EQ(gone.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(gone.status().message()), HasSubstr("is in bucket 5, which is not on"));
}

TEST_F(MovesTest, ALeaseThatIsOverLeavesEverythingAsItWas) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Push(*a, Head(1, 1), ids).ok());
  const auto parcel = Freeze(*a, {5}, 1);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  EXPECT_EQ(Push(*a, Head(2, 1), ids).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(Push(*a, Head(2, 1), {IdIn(6)}).ok());  // others go on
  ASSERT_TRUE(b->OfferBuckets("job", *parcel).ok());
  // It is not served before it is released: never by both.
  EXPECT_EQ(Pull(*b, ids).status().code(), StatusCode::kOutOfRange);
  clock_.Advance(seconds(3));
  EXPECT_TRUE(Push(*a, Head(3, 1), ids).ok());
  EXPECT_EQ(a->ReleaseBuckets("job", parcel->moves).status().code(), StatusCode::kAborted);
  // The next move has another number, and what was offered before counts for nothing.
  const auto rows = *Pull(*a, ids);
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  EXPECT_EQ(*Pull(*b, ids), rows);
  EXPECT_EQ(b->Info().tables[0].rows, 1u);
}

TEST_F(MovesTest, EveryCallMayComeTwice) {
  const auto a = Start(0, 2), b = Start(1, 2);
  ASSERT_TRUE(Push(*a, Head(1, 1), {IdIn(5)}).ok());
  const auto rows = *Pull(*a, {IdIn(5)});
  const auto parcel = Freeze(*a, {5}, 1);
  ASSERT_EQ(Freeze(*a, {5}, 1)->moves, parcel->moves);
  EXPECT_EQ(Freeze(*a, {6}, 1).status().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(b->OfferBuckets("job", *parcel).ok());
  ASSERT_TRUE(b->OfferBuckets("job", *parcel).ok());
  const auto map = a->ReleaseBuckets("job", parcel->moves);
  ASSERT_TRUE(map.ok());
  ASSERT_TRUE(a->ReleaseBuckets("job", parcel->moves).ok());
  ASSERT_TRUE(Tell(*b, *map).ok());
  ASSERT_TRUE(Push(*b, Head(1, 1), {IdIn(5)}).ok());
  ASSERT_TRUE(b->OfferBuckets("job", *parcel).ok());  // too late: it changes nothing
  EXPECT_NE(*Pull(*b, {IdIn(5)}), rows);
}

TEST_F(MovesTest, APushThatWasRefusedOnceIsRefusedForEver) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  EXPECT_EQ(Push(*a, Head(1, 1), ids).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(Push(*b, Head(1, 1), ids).ok());  // it went there
  ASSERT_TRUE(Move(*b, *a, {5}, 0).ok());
  const auto late = Push(*a, Head(1, 1), ids);
  EXPECT_EQ(late.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("given away buckets 0 times"));
  EXPECT_TRUE(Push(*a, Head(2, 1, /*generation=*/1), ids).ok());
}

TEST_F(MovesTest, MarksComeWithTheBucket) {
  const auto a = Start(0, 2), b = Start(1, 2), c = Make(2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Push(*a, Head(4, 1), ids).ok());
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  ASSERT_TRUE(Move(*b, *c, {5}, 2).ok());  // a server that is new
  const auto rows = *Pull(*c, ids);
  // Asked again where the bucket is now.
  PushHead head = Head(1, 1);
  head.origin_server = 1;
  head.origin_sequence = 4;
  auto asked = Push(*c, head, ids);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->duplicate);
  EXPECT_EQ(*Pull(*c, ids), rows);
  head.origin_sequence = 5;  // was never taken
  asked = Push(*c, head, ids);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_FALSE(asked->duplicate);
  EXPECT_NE(*Pull(*c, ids), rows);
}

// The two tests above look where servers with these mistakes would double a push.
TEST_F(MovesTest, WithoutGenerationsALatePushIsTakenTwice) {
  bug_ = ShardBug::kOldRowsTaken;
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  ASSERT_TRUE(Push(*b, Head(1, 1), ids).ok());
  ASSERT_TRUE(Move(*b, *a, {5}, 0).ok());
  const auto rows = *Pull(*a, ids);
  EXPECT_TRUE(Push(*a, Head(1, 1), ids).ok());
  EXPECT_NE(*Pull(*a, ids), rows);
}

TEST_F(MovesTest, WithoutMarksAPushThatIsAskedAboutIsTakenTwice) {
  bug_ = ShardBug::kMarksStay;
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Push(*a, Head(4, 1), ids).ok());
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  PushHead head = Head(1, 1);
  head.origin_server = 1;
  head.origin_sequence = 4;
  const auto asked = Push(*b, head, ids);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_FALSE(asked->duplicate);
}

TEST_F(MovesTest, AnOlderIncarnationIsRefusedWhereTheBucketCame) {
  const auto a = Start(0, 2), b = Make(2);
  ASSERT_TRUE(a->Greet({"job", 1, kIncarnation + 1}).ok());
  ASSERT_TRUE(Move(*a, *b, {5}, 2).ok());
  const auto old = Push(*b, Head(9, 1, 0, /*trainer=*/1), {IdIn(5)});
  EXPECT_EQ(old.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(old.status().message()), HasSubstr("was started again"));
}

TEST_F(MovesTest, ACheckpointKnowsWhoServesWhat) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Push(*a, Head(1, 1), ids).ok());
  const StatusOr<ShardImage> before = a->Image();
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  const auto offered = Freeze(*a, {6}, 1);
  ASSERT_TRUE(b->OfferBuckets("job", *offered).ok());
  const auto a2 = Make(0), b2 = Make(1);
  ASSERT_TRUE(a2->Restore(*a->Image()).ok());
  ASSERT_TRUE(b2->Restore(*b->Image()).ok());
  EXPECT_EQ(Pull(*a2, ids).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(*Pull(*b2, ids), *Pull(*b, ids));
  EXPECT_EQ(Pull(*b2, {IdIn(6)}).status().code(), StatusCode::kOutOfRange);
  // What was frozen is served again, and a number of a move is never used again.
  EXPECT_TRUE(Pull(*a2, {IdIn(6)}).ok());
  EXPECT_EQ(Freeze(*a2, {6}, 1)->moves[0].epoch, 2u);
  // A server that runs does not go back behind a move: the others would not.
  const Status back = a->Restore(*before);
  EXPECT_EQ(back.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(back.message()), HasSubstr("buckets of rows moved"));
}

TEST_F(MovesTest, WhoServesABucketBelievesNobodyThatItIsAnothers) {
  const auto a = Start(0, 2);
  ASSERT_TRUE(Push(*a, Head(1, 1), {IdIn(5)}).ok());
  const auto rows = *Pull(*a, {IdIn(5)});
  BucketMap wrong;
  wrong.Learn(BucketMove{5, 1000, 1});
  const Status told = Tell(*a, wrong);
  EXPECT_EQ(told.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(told.message()), HasSubstr("bucket 5 is served by this server"));
  EXPECT_EQ(*Pull(*a, {IdIn(5)}), rows);
}

// Who caches rows must hear of it, though the versions begin again from lower ones.
TEST_F(MovesTest, AServerThatGoesBackIsAnotherOne) {
  const auto a = Start(0, 2);
  const StatusOr<ShardImage> image = a->Image();
  const auto incarnation = [&] {
    uint64_t number = 0;
    PullQuery query{.caller = {"job", 0, 0}, .observer = true, .ranges = {}, .at_version = {}};
    query.rows = {{"emb", {IdIn(5)}}};
    a->Pull(query, clock_.Now() + seconds(1),
            [&](const StatusOr<PullResult>& r) { number = r.ok() ? r->server_incarnation : 0; });
    return number;
  };
  const uint64_t before = incarnation();
  ASSERT_NE(before, 0u);
  EXPECT_EQ(incarnation(), before);
  ASSERT_TRUE(a->Restore(*image).ok());
  EXPECT_NE(incarnation(), before);
}

TEST_F(MovesTest, WhatCannotMoveIsRefused) {
  const auto a = Start(0, 2), fresh = Make(2);
  EXPECT_EQ(Freeze(*a, {600}, 1).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Freeze(*a, {5}, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Freeze(*a, {6, 5}, 1).status().code(), StatusCode::kInvalidArgument);
  BucketParcel parcel = *Freeze(*a, {5}, 2);
  parcel.config = {};  // trainers will configure it
  EXPECT_EQ(fresh->OfferBuckets("job", parcel).code(), StatusCode::kFailedPrecondition);
  const auto sync = Make(0);
  ShardConfig config = Config(0, 2);
  config.mode = ShardMode::kSync;
  ASSERT_TRUE(sync->Configure({"job", 0, kIncarnation}, config).ok());
  ASSERT_TRUE(sync->InitParams({"job", 0, kIncarnation}, 0, {}, {},
                               {{.variable = "emb", .ids = {}, .content = {}, .last = true}})
                  .ok());
  const Status refused = Freeze(*sync, {5}, 1).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("in a_sync mode alone"));
}

// Carries ExchangeMap and RefuseBuckets to shards, at once.
class ShardCarrier final : public PsCarrier {
 public:
  ShardCarrier(std::vector<Shard*> shards, const Clock& clock, std::function<void(int)> before)
      : shards_(std::move(shards)), clock_(clock), before_(std::move(before)) {}
  Time Now() const override { return clock_.Now(); }
  std::unique_ptr<PsEvent> MakeEvent() override { return std::make_unique<Event>(); }
  void Call(int server, const char* method, EncodedMessage message, Time /*deadline*/,
            Take take) override {
    before_(++calls_);
    Shard& shard = *shards_[static_cast<size_t>(server)];
    const std::string bytes = Flat(message);
    if (std::string_view(method) == "RefuseBuckets") {
      RefuseBucketsRequest request;
      ASSERT_TRUE(request.ParseFromString(bytes));
      return take(shard.RefuseBuckets(request.job(), request.refuse()), {});
    }
    ExchangeMapRequest request;
    ExchangeMapReply reply;
    ASSERT_TRUE(request.ParseFromString(bytes));
    const Status status = ExchangeMap(request, shard, &reply);
    const std::string answer = reply.SerializeAsString();
    const std::span<const std::byte> piece = std::as_bytes(std::span(answer));
    take(status, Fragments(&piece, 1));
  }
  void After(Duration /*pause*/, std::function<void()> then) override { then(); }
  Status AddServer(int /*server*/, const std::string& /*address*/) override { return OkStatus(); }
  void Close() override {}
  int calls() const { return calls_; }

 private:
  struct Event final : PsEvent {
    void Set() override { set = true; }
    bool WaitUntil(Time /*deadline*/) override { return set; }
    bool set = false;
  };
  const std::vector<Shard*> shards_;
  const Clock& clock_;
  const std::function<void(int)> before_;  // with the number of the call
  int calls_ = 0;
};

// Else the source knows alone whose the bucket is, and is drained: it may be stopped for good.
TEST_F(MovesTest, AMoveThatEndsWhileOneAsksIsToldToTheOthers) {
  const int bucket = FirstBucket(1, 2);
  for (const int last : {2, 3, 4}) {
    const auto a = Start(0, 2), b = Start(1, 2);
    ASSERT_TRUE(Move(*b, *a, {bucket + 1}, 0).ok());
    const auto parcel = Freeze(*b, {bucket}, 0);
    ASSERT_TRUE(parcel.ok()) << parcel.status();
    ASSERT_TRUE(a->OfferBuckets("job", *parcel).ok());
    // In each round 0 is asked, then 1. Whoever moves the bucket tells nobody of the end.
    ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int call) {
      if (call != last) return;
      EXPECT_TRUE(b->ReleaseBuckets("job", parcel->moves).ok());
    });
    const auto servers = Mover(carrier, {"host:0", "host:1"}, {}).Where();
    ASSERT_TRUE(servers.ok()) << servers.status();
    EXPECT_THAT((*servers)[0].buckets, Contains(bucket)) << "released before call " << last;
    EXPECT_THAT((*servers)[1].buckets, Not(Contains(bucket)));
  }
}

TEST_F(MovesTest, WhoAsksWhileBucketsGoOnMovingGivesUp) {
  const auto a = Start(0, 2), b = Start(1, 2);
  std::array<Shard*, 2> owners = {b.get(), a.get()};  // of the bucket, now and next
  int target = 0;
  ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int) {
    clock_.Advance(seconds(1));
    EXPECT_TRUE(Move(*owners[0], *owners[1], {FirstBucket(1, 2)}, target).ok());
    std::swap(owners[0], owners[1]);
    target = 1 - target;
  });
  const auto servers = Mover(carrier, {"host:0", "host:1"}, {.patience = seconds(10)}).Where();
  EXPECT_EQ(servers.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(ToString(servers.status()), HasSubstr("somebody else rebalances this job"));
  EXPECT_LE(carrier.calls(), 12);
}

// A server that is drained may be stopped for good, whoever else moves rows.
TEST_F(MovesTest, WhoIsLeavingTakesNothing) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const auto early = Freeze(*a, {5}, 1);
  ASSERT_TRUE(early.ok()) << early.status();
  ASSERT_TRUE(b->OfferBuckets("job", *early).ok());
  // Until nobody can release to it what it was offered before.
  ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int call) {
    if (call == 4) {
      EXPECT_TRUE(a->ReleaseBuckets("job", early->moves).ok());
    }
  });
  Mover mover(carrier, {"host:0", "host:1"}, {});
  ASSERT_TRUE(mover.Leave(1).ok());
  EXPECT_GE(carrier.calls(), 5);
  const auto servers = mover.Where();
  ASSERT_TRUE(servers.ok()) << servers.status();
  EXPECT_THAT((*servers)[1].buckets, Contains(5));
  EXPECT_TRUE((*servers)[1].leaving);
  EXPECT_FALSE((*servers)[0].leaving);
  const auto refused = [&](Shard& shard) {
    const auto parcel = Freeze(*a, {6}, 1);
    EXPECT_TRUE(parcel.ok()) << parcel.status();
    const Status status = shard.OfferBuckets("job", *parcel);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("pserver 1 is leaving"));
    clock_.Advance(seconds(3));  // the lease is over
  };
  refused(*b);
  // It does not forget it.
  const auto image = b->Image();
  ASSERT_TRUE(image.ok()) << image.status();
  const auto later = Make(1);
  ASSERT_TRUE(later->Restore(*image).ok());
  refused(*later);
  ASSERT_TRUE(mover.Stay(1).ok());
  EXPECT_TRUE(Move(*a, *b, {6}, 1).ok());
}

TEST_F(MovesTest, BucketsThatStayFrozenForWhoIsLeavingAreNamed) {
  const auto a = Start(0, 2), b = Start(1, 2);
  ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int) {
    clock_.Advance(seconds(1));
    EXPECT_TRUE(Freeze(*a, {5}, 1).ok());
    EXPECT_TRUE(a->FreezeBuckets("job", {5}, 1, "host:1", seconds(60)).ok());
  });
  Mover mover(carrier, {"host:0", "host:1"}, {.patience = seconds(10)});
  const Status status = mover.Leave(1);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("stay frozen for pserver 1"));
}

TEST(PlanTest, WhoIsLeavingGivesAllAndGetsNone) {
  const std::vector<ServedBuckets> now = {{.server = 0, .buckets = {0, 1, 2, 3, 4, 5}},
                                          {.server = 1, .buckets = {6, 7}, .leaving = true},
                                          {.server = 2, .buckets = {}}};
  std::map<int, int> counts = {{0, 6}, {1, 2}, {2, 0}};
  for (const BucketTransfer& t : PlanRebalance(now)) {
    counts[t.source] -= static_cast<int>(t.buckets.size());
    counts[t.target] += static_cast<int>(t.buckets.size());
  }
  EXPECT_EQ(counts, (std::map<int, int>{{0, 4}, {1, 0}, {2, 4}}));
  for (const BucketTransfer& t : PlanDrain(now, 0)) EXPECT_EQ(t.target, 2);
  EXPECT_THAT(PlanRebalance({{.server = 0, .buckets = {1}, .leaving = true}}), testing::IsEmpty());
}

TEST(BucketMapTest, GoesTogetherInAnyOrder) {
  BucketMap a, b;
  EXPECT_TRUE(a.Learn({3, 1, 1}));
  EXPECT_TRUE(a.Learn({3, 2, 0}));
  EXPECT_FALSE(a.Learn({3, 1, 2}));
  EXPECT_FALSE(a.Learn({kRowBuckets, 1, 2}));
  EXPECT_TRUE(b.Learn({3, 1, 1}));
  EXPECT_TRUE(b.Learn({4, 5, 2}));
  BucketMap ab = a, ba = b;
  EXPECT_EQ(ab.Learn(b), (std::vector<BucketMove>{{4, 5, 2}}));
  EXPECT_EQ(ba.Learn(a), (std::vector<BucketMove>{{3, 2, 0}}));
  EXPECT_EQ(ab.moves(), ba.moves());
  EXPECT_EQ(ab.version(), 7u);
  EXPECT_EQ(ab.owner(3, 9), 0);
  EXPECT_EQ(ab.owner(5, 9), 9);
}

ServedBuckets Served(int server, int begin, int end) {
  ServedBuckets s{.server = server, .address = "", .buckets = {}};
  for (int b = begin; b < end; ++b) s.buckets.push_back(b);
  return s;
}

// Where the buckets are after a plan; each of them must be where the plan takes it from.
std::vector<size_t> After(std::vector<ServedBuckets> now, const std::vector<BucketTransfer>& plan) {
  for (const BucketTransfer& t : plan) {
    EXPECT_TRUE(std::is_sorted(t.buckets.begin(), t.buckets.end()));
    for (const int b : t.buckets) {
      EXPECT_EQ(std::erase(now[static_cast<size_t>(t.source)].buckets, b), 1u);
      now[static_cast<size_t>(t.target)].buckets.push_back(b);
    }
  }
  std::vector<size_t> counts;
  for (const ServedBuckets& s : now) counts.push_back(s.buckets.size());
  return counts;
}

TEST(MoverPlanTest, DrainsToThoseThatHaveFewest) {
  const std::vector<ServedBuckets> now = {Served(0, 0, 500), Served(1, 500, 1000),
                                          Served(2, 1000, 1024)};
  EXPECT_EQ(After(now, PlanDrain(now, 1)), (std::vector<size_t>{512, 0, 512}));
  EXPECT_TRUE(PlanDrain({now[1]}, 1).empty());
}

TEST(MoverPlanTest, RebalancesWithFewMoves) {
  const std::vector<ServedBuckets> now = {Served(0, 0, 600), Served(1, 600, 1024), Served(2, 0, 0)};
  const auto plan = PlanRebalance(now);
  EXPECT_EQ(After(now, plan), (std::vector<size_t>{342, 341, 341}));
  size_t moved = 0;
  for (const BucketTransfer& t : plan) moved += t.buckets.size();
  EXPECT_EQ(moved, 341u);
  const std::vector<ServedBuckets> even = {Served(0, 0, 512), Served(1, 512, 1024)};
  EXPECT_TRUE(PlanRebalance(even).empty());
}

}  // namespace
}  // namespace tandem
