#include "trainer/modes/state/rank_states.h"

#include <thread>

#include "collective/host/inproc.h"
#include "gmock/gmock.h"
#include "kernels/graph/optimizer.h"

namespace tandem::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::chrono::seconds kPatience(60);

graph::Program Variables() {
  graph::Program program;
  const auto add = [&](const char* name, graph::VarKind kind, bool saved) {
    graph::Var var = {.name = name, .kind = kind, .desc = {DType::kF32, {2}}};
    var.saved = saved;
    CHECK(program.AddVar(std::move(var)).ok());
  };
  add("w", graph::VarKind::kParam, true);
  add("w@velocity", graph::VarKind::kState, true);
  add("w@outer", graph::VarKind::kState, true);
  add("flag", graph::VarKind::kState, false);
  add(graph::kLearningRateVar, graph::VarKind::kState, true);
  return program;
}

// The variables of one rank, all with the same value.
class Rank {
 public:
  Rank(const graph::Program& program, float value) {
    for (const graph::Var& var : program.vars()) {
      auto values = scope.Declare(var.name, var.desc)->span<float>();
      std::fill(values.begin(), values.end(), value);
    }
  }
  std::span<float> Values(const char* var) { return scope.Find(var)->span<float>(); }

 private:
  CpuDevice device_;

 public:
  exec::Scope scope{device_};
};

using OnRank = std::function<Status(int rank, collective::Communicator& communicator)>;

// Calls `run` for each rank in a separate thread. Returns the results.
std::vector<Status> OnRanks(int ranks, const OnRank& run) {
  auto world = collective::MakeInprocCommunicators(ranks);
  std::vector<Status> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto at = static_cast<size_t>(r);
      results[at] = run(r, *world[at]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// A checkpoint of three ranks with the values 1, 2 and 3. `host` owns its memory.
TensorMap SavedByThree(const graph::Program& program, Device& host) {
  TensorMap saved;
  const RankStates states({"w@outer"});
  const auto results = OnRanks(3, [&](int r, collective::Communicator& communicator) {
    Rank rank(program, static_cast<float>(r + 1));
    TensorMap own;
    Status status =
        states.Gather(communicator, program, rank.scope, host, &own, SteadyNow() + kPatience);
    if (r == 0) saved = own;
    if (r > 0) {
      EXPECT_THAT(own, IsEmpty());
    }
    return status;
  });
  EXPECT_THAT(results, Each(OkStatus()));
  return saved;
}

TEST(RankStatesTest, ACheckpointHasTheValuesOfTheOtherRanks) {
  CpuDevice host;
  const TensorMap saved = SavedByThree(Variables(), host);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : saved) names.push_back(name);
  EXPECT_THAT(names,
              UnorderedElementsAre("w@rank1", "w@velocity@rank1", "w@rank2", "w@velocity@rank2"));
  EXPECT_THAT(saved.at("w@rank2").span<float>(), Each(3.0f));
}

// Ranks that the checkpoint lacks have the values of rank 0, which Join has sent them.
TEST(RankStatesTest, AnyNumberOfRanksResumes) {
  CpuDevice host;
  const graph::Program program = Variables();
  const TensorMap saved = SavedByThree(program, host);
  for (const int ranks : {1, 2, 4}) {
    const auto results = OnRanks(ranks, [&](int r, collective::Communicator& communicator) {
      Rank rank(program, 1);
      Status status = RankStates({"w@outer"})
                          .Scatter(communicator, program, r == 0 ? saved : TensorMap{}, rank.scope,
                                   SteadyNow() + kPatience);
      const float want = r < 3 ? static_cast<float>(r + 1) : 1.0f;
      EXPECT_THAT(rank.Values("w"), Each(want)) << r << " of " << ranks;
      EXPECT_THAT(rank.Values("w@velocity"), Each(want));
      EXPECT_THAT(rank.Values("w@outer"), Each(1.0f));
      return status;
    });
    EXPECT_THAT(results, Each(OkStatus()));
  }
}

TEST(RankStatesTest, NoRankWaitsForACheckpointOfAnotherShape) {
  CpuDevice host;
  const graph::Program program = Variables();
  TensorMap saved = SavedByThree(program, host);
  saved["w@rank1"] = *Tensor::Make({DType::kF32, {3}}, host);
  const auto results = OnRanks(2, [&](int r, collective::Communicator& communicator) {
    Rank rank(program, 1);
    return RankStates({"w@outer"})
        .Scatter(communicator, program, r == 0 ? saved : TensorMap{}, rank.scope,
                 SteadyNow() + kPatience);
  });
  EXPECT_THAT(std::string(results[0].message()),
              HasSubstr("\"w@rank1\" is f32[3] in the checkpoint, but the program needs f32[2]"));
  EXPECT_EQ(results[1], OkStatus());
}

}  // namespace
}  // namespace tandem::trainer
