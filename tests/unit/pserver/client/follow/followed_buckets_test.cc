// The server of each row bucket that a follower reads from, while buckets move between servers.
#include "pserver/client/follow/followed_buckets.h"

#include "common/base/check.h"
#include "gmock/gmock.h"

namespace tandem::ps {
namespace {

using Range = FollowedBuckets::Range;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Two servers, of which each serves a half of the buckets. The follower has all rows.
class FollowedBucketsTest : public testing::Test {
 protected:
  FollowedBucketsTest() {
    buckets_.SetClaims(0, std::vector<Range>{{0, 512, 0}});
    buckets_.SetClaims(1, std::vector<Range>{{512, 1024, 0}});
    for (int b = 0; b < kRowBuckets; ++b) CHECK(buckets_.Hold(b < 512 ? 0 : 1, b));
  }
  FollowedBuckets buckets_{2};
};

TEST_F(FollowedBucketsTest, AllRowsOfAllServersAreWanted) {
  FollowedBuckets buckets(2);
  EXPECT_TRUE(buckets.LacksOwner());
  buckets.SetClaims(0, std::vector<Range>{{0, 512, 0}});
  EXPECT_THAT(buckets.Wanted(0), SizeIs(512));
  EXPECT_THAT(buckets.Wanted(1), IsEmpty());
  EXPECT_TRUE(buckets.LacksOwner());
  buckets.SetClaims(1, std::vector<Range>{{512, 1024, 0}});
  EXPECT_FALSE(buckets.LacksOwner());
  EXPECT_FALSE(buckets.Complete());
  EXPECT_TRUE(buckets_.Complete());
  EXPECT_THAT(buckets_.Held(1), ElementsAre(Range{512, 1024, 0}));
}

TEST_F(FollowedBucketsTest, ABucketThatMovesIsReadFromItsNewServer) {
  buckets_.SetClaims(1, std::vector<Range>{{7, 8, 3}, {512, 1024, 0}});
  EXPECT_FALSE(buckets_.Complete());
  EXPECT_THAT(buckets_.Wanted(1), ElementsAre(7));
  EXPECT_TRUE(buckets_.Holds(0, 7));  // until the new server sends the rows
  EXPECT_FALSE(buckets_.Hold(0, 7));  // an older claim
  EXPECT_TRUE(buckets_.Hold(1, 7));
  EXPECT_FALSE(buckets_.Holds(0, 7));
  EXPECT_TRUE(buckets_.Complete());
}

// A bucket that comes back may have changed on the other server.
TEST_F(FollowedBucketsTest, ABucketThatMovesForthAndBackIsReadAgain) {
  buckets_.SetClaims(0, std::vector<Range>{{0, 7, 0}, {7, 8, 2}, {8, 512, 0}});
  EXPECT_FALSE(buckets_.Holds(0, 7));
  EXPECT_THAT(buckets_.Wanted(0), ElementsAre(7));
}

// A frozen bucket is not served, and the changes of the reply lack its rows.
TEST_F(FollowedBucketsTest, ABucketWhoseMoveIsCancelledIsReadAgain) {
  buckets_.SetClaims(0, std::vector<Range>{{0, 7, 0}, {8, 512, 0}});
  EXPECT_FALSE(buckets_.Holds(0, 7));
  buckets_.SetClaims(0, std::vector<Range>{{0, 512, 0}});
  EXPECT_THAT(buckets_.Wanted(0), ElementsAre(7));
}

TEST_F(FollowedBucketsTest, ABucketOfATokenIsNotHeldTwice) {
  FollowedBuckets other(2);
  other.SetClaims(1, std::vector<Range>{{7, 8, 3}, {512, 1024, 0}});
  ASSERT_TRUE(other.Hold(1, 7));
  other.SetClaims(0, std::vector<Range>{{0, 512, 0}});  // a replica that does not know the move yet
  EXPECT_THAT(other.NotHeld(buckets_.Held(0)), ElementsAre(Range{0, 7, 0}, Range{8, 512, 0}));
  other.SetHeld(0, buckets_.Held(0));
  EXPECT_FALSE(other.Holds(0, 7));
  EXPECT_TRUE(other.Holds(1, 7));
}

TEST_F(FollowedBucketsTest, AServerWithoutBucketsIsNotNeeded) {
  buckets_.SetClaims(0, std::vector<Range>{{0, 1024, 5}});
  EXPECT_FALSE(buckets_.IsNeeded(1));
  EXPECT_TRUE(buckets_.IsNeeded(0));
}

TEST_F(FollowedBucketsTest, ABucketBetweenTwoServersHasNoOwner) {
  buckets_.SetClaims(0, std::vector<Range>{{0, 511, 0}});
  EXPECT_TRUE(buckets_.LacksOwner());
  EXPECT_FALSE(buckets_.Complete());
}

TEST_F(FollowedBucketsTest, HeldBucketsComeFromAToken) {
  FollowedBuckets other(2);
  other.SetHeld(1, buckets_.Held(0));  // the addresses are in another order
  other.SetHeld(0, buckets_.Held(1));
  other.SetClaims(1, std::vector<Range>{{0, 512, 0}});
  other.SetClaims(0, std::vector<Range>{{512, 1000, 0}, {1000, 1024, 4}});
  EXPECT_THAT(other.Wanted(1), IsEmpty());
  EXPECT_THAT(other.Wanted(0), SizeIs(24));
}

}  // namespace
}  // namespace tandem::ps
