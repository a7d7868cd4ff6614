#include "trainer/modes/state/dgc_state.h"

#include <thread>

#include "collective/host/inproc.h"
#include "gmock/gmock.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;

// The state of one rank with dgc, and two of its slots with three elements each.
class RankState {
 public:
  RankState(Device& device, float value) : scope_(device) {
    for (const char* name : {graph::kDgcWholeVar, graph::kDgcBeginsVar, graph::kDgcSelectedVar,
                             graph::kDgcSparsityVar}) {
      CHECK(scope_.Declare(name, {DType::kF32, {1}}).ok());
    }
    for (const char* slot : {"velocity", "residual"}) {
      const auto values = scope_.Declare(slot, {DType::kF32, {3}})->span<float>();
      for (size_t i = 0; i < 3; ++i) values[i] = value + static_cast<float>(i);
      value *= 10;
    }
  }
  exec::Scope& scope() { return scope_; }
  std::vector<float> Values(const char* var) const {
    const auto values = scope_.Find(var)->span<float>();
    return {values.begin(), values.end()};
  }
  // Returns copies of the slots, as a checkpoint needs them.
  TensorMap Copies() {
    TensorMap copies;
    for (const char* slot : {"velocity", "residual"}) {
      Tensor copy = *Tensor::Make({DType::kF32, {3}}, scope_.device());
      const auto from = scope_.Find(slot)->span<float>();
      std::copy(from.begin(), from.end(), copy.span<float>().begin());
      copies[slot] = std::move(copy);
    }
    return copies;
  }

 private:
  exec::Scope scope_;
};

DgcState MakeState() {
  return DgcState({.begin_step = 5, .ramp_steps = 4, .sparsity = {0.5, 0.75}},
                  {"velocity", "residual"});
}

TEST(DgcStateTest, TellsTheProgramWhatTheStepIs) {
  CpuDevice device;
  RankState rank(device, 1);
  DgcState state = MakeState();
  const auto at = [&](int64_t step) {
    EXPECT_EQ(state.BeginStep(rank.scope(), step), OkStatus());
    std::vector<float> values;
    for (const char* var : {graph::kDgcWholeVar, graph::kDgcBeginsVar, graph::kDgcSelectedVar}) {
      values.push_back(rank.Values(var)[0]);
    }
    return values;
  };
  EXPECT_THAT(at(4), ElementsAre(1, 0, 0));
  EXPECT_EQ(state.TakeMessage(), "");
  EXPECT_THAT(at(5), ElementsAre(0, 1, 1));
  EXPECT_EQ(state.TakeMessage(), "dgc: sparsity=0.5 at step 6");
  EXPECT_THAT(at(6), ElementsAre(0, 0, 1));
  EXPECT_EQ(state.TakeMessage(), "");
  EXPECT_THAT(at(7), ElementsAre(0, 0, 1));
  EXPECT_EQ(state.TakeMessage(), "dgc: sparsity=0.75 at step 8");
  EXPECT_THAT(rank.Values(graph::kDgcSparsityVar), ElementsAre(0.75f));
}

TEST(DgcStateTest, CheckpointsHoldTheSumsOnceRanksDiffer) {
  CpuDevice device;
  for (const int64_t step : {4, 5}) {
    auto world = collective::MakeInprocCommunicators(2);
    std::vector<TensorMap> saved(2);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        RankState rank(device, r == 0 ? 1.0f : 7.0f);
        DgcState state = MakeState();
        EXPECT_EQ(state.BeginStep(rank.scope(), step), OkStatus());
        saved[r] = rank.Copies();
        EXPECT_EQ(state.Sum(*world[r], &saved[r], SteadyNow() + std::chrono::seconds(60)),
                  OkStatus());
        EXPECT_EQ(rank.Values("velocity")[0], r == 0 ? 1.0f : 7.0f) << "the rank's own stays";
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t r = 0; r < 2; ++r) {
      const auto velocity = saved[r].at("velocity").span<float>();
      const auto residual = saved[r].at("residual").span<float>();
      if (step == 5) {
        EXPECT_THAT(velocity, ElementsAre(8, 10, 12));
        EXPECT_THAT(residual, ElementsAre(80, 82, 84));
      } else {
        EXPECT_EQ(velocity[0], r == 0 ? 1.0f : 7.0f);
      }
    }
  }
}

TEST(DgcStateTest, RanksTakeTheirPartsOfACheckpoint) {
  CpuDevice device;
  RankState before(device, 6), behind(device, 6);
  EXPECT_EQ(MakeState().Split(before.scope(), 5, 4), OkStatus());
  EXPECT_THAT(before.Values("velocity"), ElementsAre(6, 7, 8));
  EXPECT_EQ(MakeState().Split(behind.scope(), 6, 4), OkStatus());
  EXPECT_THAT(behind.Values("velocity"), ElementsAre(1.5f, 1.75f, 2));
  EXPECT_THAT(behind.Values("residual"), ElementsAre(15, 15.25f, 15.5f));
}

}  // namespace
}  // namespace tandem::trainer
