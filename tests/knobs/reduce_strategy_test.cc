// reduce_strategy and fuse_broadcast_ops: which rank updates a parameter, which messages are sent,
// and how much state a rank has. No bit changes.
#include "kernels/graph/distribute/update_by_owner.h"

#include <signal.h>

#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

const Args kTwoRanks = {"--mode=collective", "--nproc=2"};

class ReduceStrategyTest : public KnobProgramTest {
 protected:
  JobPrograms Reduced(Overrides knobs, int ranks, int rank) {
    knobs.insert(knobs.end(), {{"mode", "collective"}, {"reduce_strategy", "Reduce"}});
    return Programs(knobs, ranks, rank);
  }
  static int64_t SlotElements(const graph::Program& program) {
    int64_t sum = 0;
    for (const graph::Var* var : program.VarsOf(graph::VarKind::kState)) {
      if (var->name.find("@velocity") != std::string::npos) sum += var->desc.shape.numel();
    }
    return sum;
  }
  // Returns the last step that the trainers report. Fails the test if the trainers report no step,
  // or different steps. (A trainer that gets a second signal, from the launcher, may end without
  // output.)
  std::string LastStep(const std::string& logs) const {
    const std::string words = "stopped on request after step ";
    std::set<std::string> steps;
    for (const auto& entry : std::filesystem::directory_iterator(logs)) {
      const std::string text = ReadWholeFile(entry.path());
      const size_t at = text.find(words);
      if (at == std::string::npos) continue;
      steps.insert(std::to_string(std::stoi(text.substr(at + words.size()))));
    }
    EXPECT_EQ(steps.size(), 1u);
    return steps.empty() ? "" : *steps.begin();
  }
  bool Saved(const std::string& store, const std::string& step) const {
    return std::filesystem::exists(Path(store) + "/step-" + step + "/manifest.pbtxt");
  }
};

TEST(OwnersTest, AHundredEqualParametersOverFour) {
  graph::Program program;
  std::vector<graph::ParamGrad> grads;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "p" + std::to_string(i);
    ASSERT_TRUE(
        program
            .AddVar({.name = name, .kind = graph::VarKind::kParam, .desc = {DType::kF32, {8, 8}}})
            .ok());
    grads.push_back({name, name + "@GRAD", ""});
  }
  std::vector<int> updates(4, 0);
  for (const int owner : graph::OwnersOf(program, grads, 4)) ++updates[static_cast<size_t>(owner)];
  EXPECT_THAT(updates, ::testing::Each(25));
}

// Exactly one of three ranks owns each of LeNet's ten parameters.
TEST_F(ReduceStrategyTest, EachParameterHasOneOwner) {
  const graph::Program whole = Programs({{"mode", "collective"}}, 3).train;
  std::set<std::string> updated;
  int updates = 0;
  int64_t slots = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const graph::Program train = Reduced({{"fuse_all_reduce_ops", "false"}}, 3, rank).train;
    EXPECT_EQ(Count(train, "c_allreduce_sum"), 0);
    EXPECT_EQ(Count(train, "c_reduce_sum"), 10);
    EXPECT_EQ(Count(train, "c_broadcast"), 10);
    for (const ops::Op& op : train.ops) {
      if (op.type != "momentum") continue;
      ++updates;
      updated.insert(op.outputs[0][0]);
    }
    const int64_t own = SlotElements(train);
    EXPECT_LT(own, SlotElements(whole));
    slots += own;
  }
  EXPECT_EQ(updates, 10);
  EXPECT_EQ(updated.size(), 10u);
  EXPECT_EQ(slots, SlotElements(whole)) << "slots exist once";
}

TEST_F(ReduceStrategyTest, FusedTheyTravelOncePerOwner) {
  const graph::Program fused = Reduced({{"fuse_broadcast_ops", "true"}}, 3, 1).train;
  EXPECT_EQ(Count(fused, "c_broadcast"), 3);
  EXPECT_EQ(Count(fused, "c_reduce_sum"), 3) << "one group, three owners";
  EXPECT_EQ(Count(Reduced({}, 3, 1).train, "c_broadcast"), 10);
}

TEST_F(ReduceStrategyTest, ChangesNoBit) {
  const std::string whole = Sha("whole", "collective", {});
  EXPECT_EQ(Sha("reduce", "collective", {"--reduce_strategy=Reduce"}), whole);
  EXPECT_EQ(Sha("fused", "collective",
                {"--reduce_strategy=Reduce", "--fuse_broadcast_ops=true",
                 "--fuse_all_optimizer_ops=true", "--enable_backward_optimizer_op_deps=false"}),
            whole);
  EXPECT_EQ(Sha("places", "local", {"--reduce_strategy=Reduce", "--cpu_num=2", "--threads=1"}),
            Sha("all", "local", {"--cpu_num=2", "--threads=1"}));
  EXPECT_EQ(
      Sha("merged", "collective",
          {"--reduce_strategy=Reduce", "--gradient_merge=true",
           "--gradient_merge_configs.k_steps=2"}),
      Sha("kept", "collective", {"--gradient_merge=true", "--gradient_merge_configs.k_steps=2"}));
}

// A checkpoint holds the slots of all owners. A job with any strategy can resume from the
// checkpoint.
TEST_F(ReduceStrategyTest, CheckpointsAreWhole) {
  const auto run = [this](const std::string& name, const std::string& store, int steps,
                          const std::string& flag) {
    return RunJob(name, kTwoRanks,
                  {"--checkpoint.dir=" + Path(store), "--checkpoint.every_steps=10",
                   "--steps_max=" + std::to_string(steps), flag})
        .result.params_sha256;
  };
  const std::string reduce = "--reduce_strategy=Reduce", all = "--reduce_strategy=AllReduce";
  const std::string undisturbed = run("whole", "whole", 30, all);
  run("first", "forth", 15, reduce);
  EXPECT_EQ(run("then", "forth", 30, all), undisturbed);
  run("start", "back", 15, all);
  EXPECT_EQ(run("end", "back", 30, reduce), undisturbed);
}

// The test asks only one rank to stop. All ranks must stop after the same step and write a
// checkpoint of this step.
TEST_F(ReduceStrategyTest, AllStopTogether) {
  const Args flags = {"--checkpoint.dir=" + Path("store"), "--checkpoint.every_steps=10",
                      "--reduce_strategy=Reduce"};
  auto endless = flags;
  endless.push_back("--epochs=1000");
  const auto job = StartJob("stopped", kTwoRanks, endless);
  ASSERT_TRUE(WaitUntil([&] { return Saved("store", "00000010"); })) << job->Output();
  const auto trainers = ChildrenOf(job->pid(), "tandem-trainer");
  ASSERT_EQ(trainers.size(), 2u);
  kill(trainers[0], SIGTERM);
  EXPECT_NE(job->Wait(), 0);
  std::string saved = LastStep(Path("stopped.log"));
  saved.insert(0, 8 - saved.size(), '0');
  EXPECT_TRUE(Saved("store", saved));
}

TEST_F(ReduceStrategyTest, RefusesWhatNeedsAllGradients) {
  const auto error = [this](const std::string& name, const std::string& flag) {
    const auto job = StartJob(name, kTwoRanks, {"--reduce_strategy=Reduce", flag});
    EXPECT_EQ(job->Wait(), 2);
    return job->Output();
  };
  EXPECT_THAT(error("localsgd", "--localsgd=true"), HasSubstr("exclude each other"));
}

}  // namespace
}  // namespace tandem::trainer
