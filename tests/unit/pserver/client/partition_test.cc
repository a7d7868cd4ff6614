#include "pserver/client/placement/partition.h"

#include <map>
#include <random>

#include "gmock/gmock.h"

namespace tandem::ps {
namespace {

using testing::ElementsAre;

std::vector<int64_t> Sizes(const Shape& shape, int servers) {
  const auto blocks = Partition({{"w", shape}}, {.servers = servers});
  EXPECT_TRUE(blocks.ok()) << blocks.status();
  std::vector<int64_t> sizes;
  for (const PsSlice& b : *blocks) sizes.push_back(b.numel);
  return sizes;
}

// Partition follows the rule of Paddle's slice_variable() with the default min_block_size of 8192.
TEST(PartitionTest, CutsAsTheSeedsDo) {
  EXPECT_THAT(Sizes(Shape{8191}, 1), ElementsAre(8191));
  EXPECT_THAT(Sizes(Shape{8191}, 4), ElementsAre(8191));
  EXPECT_THAT(Sizes(Shape{8192 * 2 - 1}, 4), ElementsAre(16383));
  EXPECT_THAT(Sizes(Shape{8192 * 2}, 4), ElementsAre(8192, 8192));
  EXPECT_THAT(Sizes(Shape{8192 * 2 + 1}, 2), ElementsAre(8193, 8192));
  // Each slice has at least ceil(30000 / 3) = 10000 elements. Rounded up to whole rows of 300
  // elements, this is 34 rows.
  EXPECT_THAT(Sizes(Shape{100, 300}, 3), ElementsAre(10200, 10200, 9600));
  // Slice sizes are rounded up to whole rows, so there may be fewer slices than servers.
  EXPECT_THAT(Sizes(Shape{3, 10000}, 2), ElementsAre(20000, 10000));
  EXPECT_THAT(Sizes(Shape{5, 10000}, 4), ElementsAre(20000, 20000, 10000));
  // With 8 servers for 2 rows, only two servers get a slice.
  EXPECT_THAT(Sizes(Shape{2, 40000}, 8), ElementsAre(40000, 40000));
  EXPECT_THAT(Sizes(Shape{20, 30, 10, 10}, 3), ElementsAre(21000, 21000, 18000));
}

TEST(PartitionTest, RoundRobinGoesOverBlocks) {
  const auto blocks =
      Partition({{"a", Shape{8192 * 3}}, {"b", Shape{7}}, {"c", Shape{7}}}, {.servers = 2});
  ASSERT_TRUE(blocks.ok());
  std::vector<int> servers;
  for (const PsSlice& b : *blocks) servers.push_back(b.server);
  EXPECT_THAT(servers, ElementsAre(0, 1, 0, 1));
}

TEST(PartitionTest, HashIsStable) {
  const PartitionOptions options{.servers = 3, .dispatcher = PsDispatcher::kHashName};
  const auto alone = Partition({{"fc_1.w", Shape{10}}}, options);
  const auto among = Partition({{"a", Shape{10}}, {"fc_1.w", Shape{10}}}, options);
  ASSERT_TRUE(alone.ok() && among.ok());
  // The server of a variable does not depend on the order of the variables.
  EXPECT_EQ((*alone)[0].server, (*among)[1].server);
  std::map<int, int> count;
  for (int i = 0; i < 300; ++i) {
    ++count[(*Partition({{"v" + std::to_string(i), Shape{10}}}, options))[0].server];
  }
  for (const auto& [server, n] : count) EXPECT_GT(n, 60) << server;
}

TEST(PartitionTest, SizeBalancedEvensOut) {
  const auto blocks = Partition({{"a", Shape{100}}, {"b", Shape{60}}, {"c", Shape{50}}},
                                {.servers = 2, .dispatcher = PsDispatcher::kSizeBalanced});
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ((*blocks)[0].server, 0);
  EXPECT_EQ((*blocks)[1].server, 1);
  EXPECT_EQ((*blocks)[2].server, 1);
}

TEST(PartitionTest, RefusesBadInput) {
  EXPECT_FALSE(Partition({{"a", Shape{1}}}, {.servers = 0}).ok());
  EXPECT_FALSE(Partition({{"a", Shape{1}}}, {.servers = 1, .min_block_size = 0}).ok());
  EXPECT_FALSE(Partition({{"a", Shape{0, 4}}}, {.servers = 1}).ok());
  EXPECT_FALSE(Partition({{"a", Shape{1}}, {"a", Shape{1}}}, {.servers = 1}).ok());
}

TEST(PartitionTest, EveryElementHasExactlyOneOwner) {
  std::mt19937 random(7);
  const auto pick = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    PartitionOptions options{.servers = static_cast<int>(pick(1, 9)),
                             .slice_var_up = pick(0, 4) != 0,
                             .min_block_size = pick(1, 300),
                             .dispatcher = static_cast<PsDispatcher>(pick(0, 2))};
    std::vector<PsVariable> variables;
    const int64_t count = pick(1, 5);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int64_t> dims(static_cast<size_t>(pick(0, 3)));
      for (int64_t& d : dims) d = pick(1, 20);
      variables.push_back({"v" + std::to_string(i), Shape(dims)});
    }
    const auto blocks = Partition(variables, options);
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    std::vector<int64_t> next(variables.size(), 0);
    for (const PsSlice& b : *blocks) {
      const Shape& shape = variables[b.variable].shape;
      ASSERT_EQ(b.offset, next[b.variable]);
      ASSERT_GE(b.numel, 1);
      ASSERT_GE(b.server, 0);
      ASSERT_LT(b.server, options.servers);
      const int64_t row = shape.rank() >= 2 ? shape.numel(1, shape.rank()) : 1;
      ASSERT_EQ(b.offset % row, 0);
      next[b.variable] += b.numel;
    }
    for (size_t v = 0; v < variables.size(); ++v) {
      ASSERT_EQ(next[v], variables[v].shape.numel());
    }
  }
}

}  // namespace
}  // namespace tandem::ps
