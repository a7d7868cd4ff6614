// Tests the memory of temporaries: packings, lifetimes, and outputs that reuse the memory of
// inputs.
#include "kernels/exec/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "common/tensor/device.h"
#include "kernels/graph/builder.h"

namespace tandem {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// ---- Packing of temporaries ---------------------------------------------------------------------

void ExpectApart(const std::vector<exec::Lifetime>& lives, const exec::Packing& packing) {
  for (size_t i = 0; i < lives.size(); ++i) {
    EXPECT_EQ(packing.offsets[i] % Device::kAlignment, 0u);
    EXPECT_LE(packing.offsets[i] + lives[i].bytes, packing.bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool meet = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
      const bool apart = packing.offsets[i] + lives[i].bytes <= packing.offsets[j] ||
                         packing.offsets[j] + lives[j].bytes <= packing.offsets[i];
      EXPECT_TRUE(!meet || apart) << i << " and " << j;
    }
  }
}

TEST(PackArena, DisjointLivesShareAndMeetingLivesDoNot) {
  const std::vector<exec::Lifetime> lives = {{1000, 0, 1}, {1000, 2, 3}, {500, 1, 2}, {64, 0, 3}};
  const exec::Packing packing = exec::PackArena(lives);
  EXPECT_EQ(packing.bytes, 1024u + 512u + 64u);
  EXPECT_EQ(packing.bytes, exec::LargestLiveSum(lives));
  EXPECT_EQ(packing.offsets[0], packing.offsets[1]);
  ExpectApart(lives, packing);
  EXPECT_EQ(exec::PackArena({}).bytes, 0u);
}

std::vector<exec::Lifetime> Random(std::mt19937& rng, size_t n) {
  std::vector<exec::Lifetime> lives;
  for (size_t i = 0; i < n; ++i) {
    const int first = static_cast<int>(rng() % n);
    lives.push_back({rng() % 4096, first, first + static_cast<int>(rng() % (n / 2))});
  }
  return lives;
}

TEST(PackArena, AnyLivesAreApartAndNeverBelowTheBound) {
  std::mt19937 rng(3);
  for (int round = 0; round < 100; ++round) {
    const std::vector<exec::Lifetime> lives = Random(rng, 3 + rng() % 40);
    const exec::Packing packing = exec::PackArena(lives);
    ExpectApart(lives, packing);
    EXPECT_GE(packing.bytes, exec::LargestLiveSum(lives));
  }
}

// PackArena packs in several orders and takes the best result, because no order is best for all
// programs. Each order must win for some input.
TEST(PackArena, EveryOrderWinsSomewhere) {
  std::mt19937 rng(4);
  std::set<std::string> winners;
  for (int round = 0; round < 400; ++round) {
    winners.insert(exec::PackArena(Random(rng, 4 + rng() % 30)).order);
  }
  EXPECT_THAT(winners, UnorderedElementsAre("size", "breadth", "lifetime", "area", "first use"));
}

// ---- Lifetimes of temporaries -------------------------------------------------------------------

constexpr size_t kX = 8 * 256 * sizeof(float);  // bytes of one value in the programs of these tests

ops::Op Unary(const std::string& type, const std::string& in, const std::string& out) {
  return {.type = type, .inputs = {{in}}, .outputs = {{out}}};
}

graph::Program WithData() {
  graph::Program program;
  graph::Var data{.name = "x", .kind = graph::VarKind::kData, .desc = {DType::kF32, {8, 256}}};
  EXPECT_TRUE(program.AddVar(data).ok());
  return program;
}

exec::MemoryPlan PlanOf(const graph::Program& program, const std::vector<std::string>& fetch,
                        const exec::MemoryOptions& options) {
  const auto plan = exec::PlanMemory(program, exec::FindCommIntervals(program), fetch, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

graph::Program ChainOf(int n) {
  graph::Program program = WithData();
  std::string last = "x";
  for (int i = 0; i < n; ++i) {
    const std::string next = "t" + std::to_string(i);
    EXPECT_TRUE(graph::AppendOp(program, Unary("relu", last, next)).ok());
    last = next;
  }
  return program;
}

TEST(PlanMemory, AChainTakesTwoValuesAndInPlaceOne) {
  const graph::Program program = ChainOf(6);
  const exec::MemoryPlan apart = PlanOf(program, {"t5"}, {});
  EXPECT_EQ(apart.bytes, 2 * kX);
  EXPECT_EQ(apart.bytes_min, 2 * kX);
  EXPECT_EQ(apart.bytes_sum, 6 * kX);
  const exec::MemoryPlan shared = PlanOf(program, {"t5"}, {.inplace = true});
  EXPECT_EQ(shared.bytes, kX);
  EXPECT_EQ(shared.inplace.size(), 5u) << "t0 must not take the place of the data";
  EXPECT_EQ(PlanOf(program, {"t5"}, {.inplace = true, .apart = {"relu"}}).inplace.size(), 0u);
}

TEST(PlanMemory, DeadMemoryIsFreedWhenItHoldsEnough) {
  const graph::Program program = ChainOf(12);
  const auto bytes = [&](int64_t eager) {
    return PlanOf(program, {}, {.reuse = false, .eager_delete_bytes = eager}).bytes;
  };
  EXPECT_EQ(bytes(0), 2 * kX);
  EXPECT_EQ(bytes(2 * kX), 3 * kX);
  EXPECT_EQ(bytes(4 * kX), 5 * kX);
  EXPECT_EQ(bytes(-1), 12 * kX);
  EXPECT_EQ(PlanOf(program, {}, {.reuse = true, .eager_delete_bytes = -1}).bytes, 2 * kX);
}

TEST(PlanMemory, NothingTakesThePlaceOfWhatOthersNeed) {
  graph::Program program = WithData();
  ASSERT_TRUE(graph::AppendOp(program, Unary("relu", "x", "a")).ok());
  ASSERT_TRUE(
      graph::AppendOp(program, Unary("tanh", "a", "read_later")).ok());  // a has a later reader
  // This operator is the last reader of `read_later`.
  ASSERT_TRUE(graph::AppendOp(program, Unary("sigmoid", "read_later", "b")).ok());
  ASSERT_TRUE(
      graph::AppendOp(program, Unary("relu", "b", "fetched")).ok());  // b is fetched afterwards
  ASSERT_TRUE(
      graph::AppendOp(program,
                      {.type = "elementwise_add", .inputs = {{"a"}, {"a"}}, .outputs = {{"twice"}}})
          .ok());  // the operator reads `a` as both inputs
  const exec::MemoryPlan plan = PlanOf(program, {"b", "fetched", "twice"}, {.inplace = true});
  EXPECT_THAT(plan.inplace, UnorderedElementsAre(Pair("b", "read_later")));
}

TEST(PlanMemory, ACommunicationOnItsWayKeepsItsMemory) {
  graph::Program program = WithData();
  ASSERT_TRUE(graph::AppendOp(program, Unary("relu", "x", "g")).ok());
  ASSERT_TRUE(
      graph::AppendOp(program, {.type = "c_allreduce_sum", .inputs = {{"g"}}, .outputs = {{"g"}}})
          .ok());
  ASSERT_TRUE(graph::AppendOp(program, Unary("tanh", "x", "a")).ok());
  ASSERT_TRUE(graph::AppendOp(program, Unary("relu", "a", "b")).ok());
  const exec::MemoryPlan plan = PlanOf(program, {}, {.inplace = true});
  EXPECT_EQ(plan.bytes, 2 * kX) << "g is on its way to the end";
  EXPECT_NE(plan.offsets.at("g"), plan.offsets.at("a"));
}

// The gradient of a sum needs only the shapes of the terms, so the plan can reuse the memory of the
// terms.
TEST(PlanMemory, ShapesKeepNoMemory) {
  graph::Program program = WithData();
  ASSERT_TRUE(graph::AppendOp(program, Unary("relu", "x", "a")).ok());
  ASSERT_TRUE(graph::AppendOp(program, Unary("tanh", "x", "b")).ok());
  ASSERT_TRUE(
      graph::AppendOp(program,
                      {.type = "elementwise_add", .inputs = {{"a"}, {"b"}}, .outputs = {{"sum"}}})
          .ok());
  ASSERT_TRUE(graph::AppendOp(program, Unary("relu", "sum", "g")).ok());
  ASSERT_TRUE(graph::AppendOp(program, {.type = "elementwise_add_grad",
                                        .inputs = {{"a"}, {"b"}, {"g"}},
                                        .outputs = {{"da"}, {"db"}}})
                  .ok());
  const exec::MemoryPlan plan = PlanOf(program, {"da", "db"}, {});
  EXPECT_EQ(plan.bytes, 3 * kX) << "a and b are dead behind their sum";
}

TEST(PlanMemory, AnUnknownFetchIsNamed) {
  const auto plan = exec::PlanMemory(ChainOf(1), {}, {"t7"}, {});
  EXPECT_EQ(plan.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem
