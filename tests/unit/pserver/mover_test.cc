// Moves of row buckets: the owners of buckets, a server that is drained, and plans of moves.
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/migration_calls.h"
#include "tests/unit/pserver/moves_fixture.h"

namespace tandem::pserver {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// If a move ends during the query, the query must announce the move to the other servers. Otherwise
// only the source would know the new owner, and the user may stop the drained source permanently.
TEST_F(MovesTest, AMoveThatEndsWhileOneAsksIsToldToTheOthers) {
  const int bucket = FirstBucket(1, 2);
  for (const int last : {2, 3, 4}) {
    const auto a = Start(0, 2), b = Start(1, 2);
    ASSERT_TRUE(Move(*b, *a, {bucket + 1}, 0).ok());
    const auto parcel = Freeze(*b, {bucket}, 0);
    ASSERT_TRUE(parcel.ok()) << parcel.status();
    ASSERT_TRUE(a->migrations().Offer("job", *parcel).ok());
    // Each round calls server 0, then server 1. Before call `last`, another process releases the
    // bucket, but does not inform server 0.
    ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int call) {
      if (call != last) return;
      EXPECT_TRUE(b->migrations().Release("job", parcel->moves).ok());
    });
    const auto servers = ps::BucketMigrator(carrier, {"host:0", "host:1"}, {}).Where();
    ASSERT_TRUE(servers.ok()) << servers.status();
    EXPECT_THAT((*servers)[0].buckets, Contains(bucket)) << "released before call " << last;
    EXPECT_THAT((*servers)[1].buckets, Not(Contains(bucket)));
  }
}

TEST_F(MovesTest, WhoAsksWhileBucketsGoOnMovingGivesUp) {
  const auto a = Start(0, 2), b = Start(1, 2);
  // The first owner has the bucket now. The second owner gets the bucket next.
  std::array<Shard*, 2> owners = {b.get(), a.get()};
  int target = 0;
  ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int) {
    clock_.Advance(seconds(1));
    EXPECT_TRUE(Move(*owners[0], *owners[1], {FirstBucket(1, 2)}, target).ok());
    std::swap(owners[0], owners[1]);
    target = 1 - target;
  });
  const auto servers =
      ps::BucketMigrator(carrier, {"host:0", "host:1"}, {.patience = seconds(10)}).Where();
  EXPECT_EQ(servers.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(ToString(servers.status()), HasSubstr("another migration of this job is running"));
  EXPECT_LE(carrier.calls(), 12);
}

// A drained server accepts no rows, whichever process moves them, because the user may stop this
// server permanently.
TEST_F(MovesTest, WhoIsLeavingTakesNothing) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const auto early = Freeze(*a, {5}, 1);
  ASSERT_TRUE(early.ok()) << early.status();
  ASSERT_TRUE(b->migrations().Offer("job", *early).ok());
  // Leave must not return while another server can still release buckets to server 1 that were
  // offered before.
  ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int call) {
    if (call == 4) {
      EXPECT_TRUE(a->migrations().Release("job", early->moves).ok());
    }
  });
  ps::BucketMigrator mover(carrier, {"host:0", "host:1"}, {});
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
    const Status status = shard.migrations().Offer("job", *parcel);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("pserver 1 is being drained and accepts no rows"));
    clock_.Advance(seconds(3));  // the lease of the rejected move ends
  };
  refused(*b);
  // After a restart, the server still knows that it is drained.
  const auto image = b->checkpoints().Take();
  ASSERT_TRUE(image.ok()) << image.status();
  const auto later = Make(1);
  ASSERT_TRUE(later->checkpoints().Restore(*image).ok());
  refused(*later);
  ASSERT_TRUE(mover.Stay(1).ok());
  EXPECT_TRUE(Move(*a, *b, {6}, 1).ok());
}

TEST_F(MovesTest, BucketsThatStayFrozenForWhoIsLeavingAreNamed) {
  const auto a = Start(0, 2), b = Start(1, 2);
  ShardCarrier carrier({a.get(), b.get()}, clock_, [&](int) {
    clock_.Advance(seconds(1));
    EXPECT_TRUE(Freeze(*a, {5}, 1).ok());
    EXPECT_TRUE(a->migrations().Freeze("job", {{5}, 1, "host:1", seconds(60)}).ok());
  });
  ps::BucketMigrator mover(carrier, {"host:0", "host:1"}, {.patience = seconds(10)});
  const Status status = mover.Leave(1);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("are still frozen for a migration to pserver 1"));
}

TEST(PlanTest, WhoIsLeavingGivesAllAndGetsNone) {
  const std::vector<ps::ServedBuckets> now = {{.server = 0, .buckets = {0, 1, 2, 3, 4, 5}},
                                              {.server = 1, .buckets = {6, 7}, .leaving = true},
                                              {.server = 2, .buckets = {}}};
  std::map<int, int> counts = {{0, 6}, {1, 2}, {2, 0}};
  for (const ps::BucketTransfer& t : ps::PlanRebalance(now)) {
    counts[t.source] -= static_cast<int>(t.buckets.size());
    counts[t.target] += static_cast<int>(t.buckets.size());
  }
  EXPECT_EQ(counts, (std::map<int, int>{{0, 4}, {1, 0}, {2, 4}}));
  for (const ps::BucketTransfer& t : ps::PlanDrain(now, 0)) EXPECT_EQ(t.target, 2);
  EXPECT_THAT(ps::PlanRebalance({{.server = 0, .buckets = {1}, .leaving = true}}),
              testing::IsEmpty());
}

ps::ServedBuckets Served(int server, int begin, int end) {
  ps::ServedBuckets s{.server = server, .address = "", .buckets = {}};
  for (int b = begin; b < end; ++b) s.buckets.push_back(b);
  return s;
}

// Returns the number of buckets of each server after a plan. Expects that the source of each
// transfer has the buckets of the transfer.
std::vector<size_t> After(std::vector<ps::ServedBuckets> now,
                          const std::vector<ps::BucketTransfer>& plan) {
  for (const ps::BucketTransfer& t : plan) {
    EXPECT_TRUE(std::is_sorted(t.buckets.begin(), t.buckets.end()));
    for (const int b : t.buckets) {
      EXPECT_EQ(std::erase(now[static_cast<size_t>(t.source)].buckets, b), 1u);
      now[static_cast<size_t>(t.target)].buckets.push_back(b);
    }
  }
  std::vector<size_t> counts;
  for (const ps::ServedBuckets& s : now) counts.push_back(s.buckets.size());
  return counts;
}

TEST(MoverPlanTest, DrainsToThoseThatHaveFewest) {
  const std::vector<ps::ServedBuckets> now = {Served(0, 0, 500), Served(1, 500, 1000),
                                              Served(2, 1000, 1024)};
  EXPECT_EQ(After(now, ps::PlanDrain(now, 1)), (std::vector<size_t>{512, 0, 512}));
  EXPECT_TRUE(ps::PlanDrain({now[1]}, 1).empty());
}

TEST(MoverPlanTest, RebalancesWithFewMoves) {
  const std::vector<ps::ServedBuckets> now = {Served(0, 0, 600), Served(1, 600, 1024),
                                              Served(2, 0, 0)};
  const auto plan = ps::PlanRebalance(now);
  EXPECT_EQ(After(now, plan), (std::vector<size_t>{342, 341, 341}));
  size_t moved = 0;
  for (const ps::BucketTransfer& t : plan) moved += t.buckets.size();
  EXPECT_EQ(moved, 341u);
  const std::vector<ps::ServedBuckets> even = {Served(0, 0, 512), Served(1, 512, 1024)};
  EXPECT_TRUE(ps::PlanRebalance(even).empty());
}

// Returns a server whose slices have these sizes in bytes. The buckets of the slices are
// consecutive, beginning with slice bucket `first`.
ps::ServedBuckets WithSlices(int server, int first, const std::vector<uint64_t>& bytes) {
  ps::ServedBuckets s{.server = server, .address = "", .buckets = {}};
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int bucket = kRowBuckets + first + static_cast<int>(i);
    s.buckets.push_back(bucket);
    s.slice_bytes[bucket] = bytes[i];
  }
  return s;
}

std::vector<uint64_t> BytesAfter(const std::vector<ps::ServedBuckets>& now,
                                 const std::vector<ps::BucketTransfer>& plan) {
  After(now, plan);
  std::map<int, uint64_t> sizes;
  std::vector<uint64_t> sums(now.size(), 0);
  for (const ps::ServedBuckets& s : now) {
    for (const auto& [bucket, bytes] : s.slice_bytes) {
      sums[static_cast<size_t>(s.server)] += bytes;
      sizes[bucket] = bytes;
    }
  }
  for (const ps::BucketTransfer& t : plan) {
    for (const int b : t.buckets) {
      sums[static_cast<size_t>(t.source)] -= sizes[b];
      sums[static_cast<size_t>(t.target)] += sizes[b];
    }
  }
  return sums;
}

TEST(MoverPlanTest, SlicesGoByTheirBytes) {
  const std::vector<ps::ServedBuckets> now = {WithSlices(0, 0, {100, 10, 30}),
                                              WithSlices(1, 3, {60, 50, 20}), WithSlices(2, 6, {})};
  EXPECT_EQ(BytesAfter(now, ps::PlanDrain(now, 1)), (std::vector<uint64_t>{140, 0, 130}));
  const auto plan = ps::PlanRebalance(now);
  EXPECT_EQ(BytesAfter(now, plan), (std::vector<uint64_t>{90, 80, 100}));
  // A slice that is too large for every other server does not move. PlanRebalance does not change a
  // balanced state.
  EXPECT_TRUE(ps::PlanRebalance({WithSlices(0, 0, {100}), WithSlices(1, 1, {10, 10})}).empty());
  EXPECT_TRUE(ps::PlanDrain({now[1]}, 1).empty());
}

}  // namespace
}  // namespace tandem::pserver
