// Tests how ranks reach a common state if some ranks are new or one step late.
#include "trainer/modes/state/common_state.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"
#include "tests/unit/collective/world.h"

namespace tandem::trainer {
namespace {

constexpr int kRanks = 3;

graph::Program Network() {
  graph::ProgramBuilder b("net", 4);
  const auto x = b.Data("x", DType::kF32, {3, 2, 2});
  const auto label = b.Data("label", DType::kI64, {1});
  b.SoftmaxLoss(b.Fc(b.BatchNorm(x), 2), label);
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  const auto grads = *graph::AppendBackward(*program, 1.0f);
  CHECK(graph::InsertAllReduce(*program, {grads}).ok());
  CHECK(graph::AppendOptimizer(*program, {.type = "momentum"}, grads).ok());
  return *std::move(program);
}

class CommonStateTest : public ::testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<CpuDevice> device = std::make_unique<CpuDevice>();
    std::unique_ptr<exec::Scope> scope = std::make_unique<exec::Scope>(*device);
    std::optional<StepRollback> point;
    int64_t agreed = -1;
  };

  void SetUp() override {
    for (Rank& rank : ranks_) {
      ASSERT_TRUE(exec::Initialize(program_, 1, *rank.scope).ok());
      auto point = StepRollback::Make(program_, *rank.scope, 1, 1, *rank.device);
      ASSERT_TRUE(point.ok()) << point.status();
      rank.point.emplace(*std::move(point));
    }
    for (const graph::Var* var : program_.VarsOf(graph::VarKind::kState)) {
      if (ranks_[0].point->Own(var->name)) own_ = var->name;
    }
    for (const graph::Var* var : program_.VarsOf(graph::VarKind::kParam)) {
      EXPECT_FALSE(ranks_[0].point->Own(var->name));
      param_ = var->name;
    }
    ASSERT_FALSE(own_.empty());
  }
  void Set(int rank, const std::string& var, float value) {
    for (float& x : ranks_[rank].scope->Find(var)->span<float>()) x = value;
  }
  float Get(int rank, const std::string& var) {
    return ranks_[rank].scope->Find(var)->span<float>()[0];
  }
  // Begins step `step` on `rank` and changes the running statistic of the rank.
  void Begin(int rank, int64_t step) {
    ASSERT_TRUE(ranks_[rank].point->BeforeStep(step).ok());
    Set(rank, own_, Get(rank, own_) + 1);
  }
  // Brings all ranks to a common state. `fresh` lists the ranks without any state.
  void Share(const std::set<int>& fresh, int64_t begin = 0) {
    collective::World world = collective::MakeInprocCommunicators(kRanks, {});
    collective::OnEveryRank(kRanks, [&](int r) {
      Rank& rank = ranks_[r];
      const bool is_new = fresh.contains(r);
      const auto step = SyncStateFromMostAdvanced(*world[r], program_, *rank.scope,
                                                  is_new ? -1 : rank.point->step(),
                                                  is_new ? nullptr : &*rank.point, begin);
      ASSERT_TRUE(step.ok()) << step.status();
      rank.agreed = *step;
    });
  }
  void ExpectStep(int64_t step) {
    for (const Rank& rank : ranks_) EXPECT_EQ(rank.agreed, step);
  }

  const graph::Program program_ = Network();
  Rank ranks_[kRanks];
  std::string own_, param_;  // names of a running statistic and of a parameter
};

TEST_F(CommonStateTest, WhenAllAreNewRankZeroCounts) {
  for (int r = 0; r < kRanks; ++r) Set(r, param_, 10.0f + static_cast<float>(r));
  Share({0, 1, 2}, 40);
  ExpectStep(40);
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(Get(r, param_), 10) << r;
}

TEST_F(CommonStateTest, ABrokenStepIsUndoneAndANewRankGetsWhatThereIs) {
  for (int r = 1; r < kRanks; ++r) {
    Set(r, param_, 5);
    Set(r, own_, 100.0f * static_cast<float>(r));
    Begin(r, 7);
  }
  Share({0});
  ExpectStep(7);
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(Get(r, param_), 5) << r;
  EXPECT_EQ(Get(1, own_), 100);  // the step that rank 1 had begun was undone
  EXPECT_EQ(Get(2, own_), 200);
  EXPECT_EQ(Get(0, own_), 100);  // rank 0 received the state of a surviving rank
}

// Rank 2 has ended step 7 and begun step 8, but rank 1 has not ended step 7. Rank 1 receives the
// parameters after step 7. For its own running statistic, rank 1 keeps its own result of step 7.
TEST_F(CommonStateTest, WhoIsBehindIsBroughtForward) {
  Set(1, param_, 5);
  Set(1, own_, 100);
  Begin(1, 7);
  Set(2, param_, 6);
  Set(2, own_, 200);
  Begin(2, 8);
  Share({0});
  ExpectStep(8);
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(Get(r, param_), 6) << r;
  EXPECT_EQ(Get(2, own_), 200);  // step 8 of rank 2 was undone
  EXPECT_EQ(Get(1, own_), 101);  // rank 1 has done step 7
  EXPECT_EQ(Get(0, own_), 200);
  // A second exchange immediately after the first one must lose no state.
  for (int r = 1; r < kRanks; ++r) EXPECT_EQ(ranks_[r].point->step(), 8);
  Share({0});
  ExpectStep(8);
  EXPECT_EQ(Get(1, own_), 101);
}

}  // namespace
}  // namespace tandem::trainer
