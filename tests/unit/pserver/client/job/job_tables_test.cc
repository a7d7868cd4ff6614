#include "pserver/client/job/job_tables.h"

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::ps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class JobTablesTest : public testing::Test {
 protected:
  static StatusOr<JobTables> Make(const std::string& rules) {
    return JobTables::Make({{"w", {100, 2}}, {"b", {7}}}, PsMode::kASync,
                           {{.variable = "ids", .height = 1000, .dim = 4, .rules = rules}},
                           {.servers = 2, .min_block_size = 50});
  }
};

TEST_F(JobTablesTest, FindsWhatConfigurePlaced) {
  const JobTables tables = *Make("accessor=ctr");
  EXPECT_FALSE(tables.sync());
  EXPECT_EQ(*tables.FindVariable("w", 200), 0u);
  EXPECT_EQ(*tables.FindTable("ids"), 0u);
  EXPECT_EQ(tables.PushWidth(0), 6) << "shows and clicks precede the values";
  ASSERT_EQ(tables.SlicesOf(0).size(), 2u);
  for (const size_t s : tables.SlicesOf(0)) {
    EXPECT_EQ(tables.SliceAt("w", tables.slices()[s].offset), s);
  }
  std::vector<size_t> on_servers = tables.SlicesOn(0);
  on_servers.insert(on_servers.end(), tables.SlicesOn(1).begin(), tables.SlicesOn(1).end());
  EXPECT_EQ(on_servers.size(), tables.slices().size()) << "each slice is on one server";
}

TEST_F(JobTablesTest, NamesWhatItDoesNotHave) {
  const JobTables tables = *Make("");
  EXPECT_EQ(tables.PushWidth(0), 4);
  EXPECT_EQ(tables.FindVariable("v", 200).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(tables.FindVariable("w", 199).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ToString(tables.FindTable("idz").status()), HasSubstr("ids"));
  EXPECT_THAT(ToString(Make("admit=x").status()), HasSubstr("table ids"));
}

TEST_F(JobTablesTest, BucketsBeginOnAllServersInEqualShares) {
  const OwnerMap first = (*Make("")).FirstOwners(2);
  EXPECT_EQ(first.rows.size(), static_cast<size_t>(kRowBuckets));
  EXPECT_EQ(std::count(first.rows.begin(), first.rows.end(), 0u), kRowBuckets / 2);
  EXPECT_THAT(first.RowOwners(), ElementsAre(0, 1));
  EXPECT_THAT(first.generations, ElementsAre(0, 0));
  EXPECT_TRUE(JobTables().FirstOwners(2).RowOwners().empty()) << "there are no tables";
}

}  // namespace
}  // namespace tandem::ps
