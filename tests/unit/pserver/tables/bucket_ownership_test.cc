// Tests which buckets of a table a server keeps and serves.
#include "pserver/tables/bucket_ownership.h"

#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr int64_t kHeight = 5000;

class BucketOwnershipTest : public testing::Test {
 protected:
  // Returns a table with the buckets [0, 512).
  static TableSpec Spec() {
    TableSpec spec{.variable = "emb", .shape = {kHeight, 2}, .init = {}, .rules = {}};
    spec.bucket_begin = 0;
    spec.bucket_end = 512;
    return spec;
  }
  // Returns the `n`-th id of a bucket.
  static uint64_t IdIn(int bucket, int n = 0) {
    for (uint64_t id = 0; id < kHeight; ++id) {
      if (RowBucket(id) == bucket && n-- == 0) return id;
    }
    ADD_FAILURE() << "bucket " << bucket << " has too few ids";
    return 0;
  }
  std::string Served(const std::vector<uint64_t>& ids) const {
    return std::string(buckets_.CheckServed(ids, /*ascending=*/true).message());
  }

  BucketOwnership buckets_{Spec()};
};

TEST_F(BucketOwnershipTest, ABucketOfTheSpecIsKeptAndServed) {
  EXPECT_TRUE(buckets_.serves(0));
  EXPECT_TRUE(buckets_.serves(511));
  EXPECT_FALSE(buckets_.serves(512));
  EXPECT_EQ(buckets_.kept().count(), 512u);
  EXPECT_EQ(Served({IdIn(3)}), "");
}

TEST_F(BucketOwnershipTest, AnIdMustBeInTheTableAndInABucket) {
  EXPECT_THAT(Served({kHeight}),
              HasSubstr("row 5000 of table emb is out of range, expected 0 to 4999"));
  EXPECT_THAT(Served({IdIn(600)}), HasSubstr("this server owns buckets 0 to 511"));
  const uint64_t low = IdIn(3), high = IdIn(3, 1);
  EXPECT_THAT(Served({high, low}),
              HasSubstr("rows of table emb must ascend, but row " + std::to_string(low) +
                        " follows row " + std::to_string(high)));
  EXPECT_THAT(Served({low, low}), HasSubstr("rows of table emb must ascend"));
  const std::vector<uint64_t> descending = {high, low};
  EXPECT_TRUE(buckets_.CheckServed(descending, /*ascending=*/false).ok());
}

TEST_F(BucketOwnershipTest, AMovingBucketIsKeptAndNotServed) {
  const std::vector<uint64_t> arriving = {IdIn(600)}, leaving = {IdIn(3)};
  buckets_.Keep(600, /*served=*/false);
  EXPECT_EQ(buckets_.CheckServed(arriving, true).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(buckets_.CheckKept(arriving).ok());
  buckets_.Keep(600, /*served=*/true);
  EXPECT_TRUE(buckets_.CheckServed(arriving, true).ok());
  buckets_.Drop(3);
  EXPECT_FALSE(buckets_.serves(3));
  EXPECT_EQ(buckets_.CheckKept(leaving).code(), StatusCode::kOutOfRange);
  EXPECT_THAT(Served(leaving), HasSubstr("not on this server"));
}

TEST_F(BucketOwnershipTest, WithoutBucketsNothingIsServed) {
  for (int b = 0; b < 512; ++b) {
    EXPECT_TRUE(buckets_.ServesAny());
    buckets_.Drop(b);
  }
  EXPECT_FALSE(buckets_.ServesAny());
}

}  // namespace
}  // namespace tandem::pserver
