// pipeline and micro_batch: each rank runs one section of the program. The bits are the same as
// those of one rank that sums the gradients of the same micro batches (batch_merge_repeats).
// tests/unit/kernels/graph/sections_test.cc tests the schedule, the memory and the programs of the
// ranks.
#include <signal.h>

#include <set>

#include "gmock/gmock.h"
#include "kernels/graph/optimizer.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"
#include "tests/support/program_text.h"

namespace tandem::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;

constexpr char kMlp[] = "zoo: \"mlp\" arg { name: \"hidden\" value: \"64,48,32\" }";

// A transformer whose residuals cross several sections. Each micro batch has its own dropout mask.
constexpr char kTransformer[] = R"(
name: "text"
model {
  zoo: "transformer_lm"
  arg { name: "layers" value: "3" }
  arg { name: "width" value: "24" }
  arg { name: "heads" value: "2" }
  arg { name: "sequence" value: "16" }
  arg { name: "dropout" value: "0.3" }
}
data { format: "text" dir: "." text { file: "text" sequence: 16 } }
optimizer { type: "adam" learning_rate: 0.01 }
global_batch_size: 16
eval_every_epochs: 0
)";

class PipelineTest : public KnobProgramTest {
 protected:
  static Args Ranks(int n) { return {"--mode=collective", "--nproc=" + std::to_string(n)}; }
  // Runs 12 steps of the job with one section per rank. Uses one thread, because the bits of some
  // kernels depend on the number of threads.
  JobRun Pipeline(const std::string& name, int ranks, int micro, const Args& more = {}) {
    Args args = {"--pipeline=true", "--micro_batch=" + std::to_string(micro), "--threads=1",
                 "--steps_max=12"};
    args.insert(args.end(), more.begin(), more.end());
    return RunJob(name, Ranks(ranks), args);
  }
  JobRun Merged(const std::string& name, const Args& launch, int parts, const Args& more = {}) {
    Args args = {"--batch_merge_repeats=" + std::to_string(parts), "--threads=1", "--steps_max=12"};
    args.insert(args.end(), more.begin(), more.end());
    return RunJob(name, launch, args);
  }
  // Expects that pipelines of 2 and 3 sections, each with 1, 2 and 4 micro batches, give the bits
  // of one rank.
  void ExpectTheBitsOfOneRank() {
    for (const int micro : {1, 2, 4}) {
      const std::string m = std::to_string(micro);
      const JobRun one = Merged("one" + m, {"--mode=local"}, micro);
      for (const int sections : {2, 3}) {
        SCOPED_TRACE(m + " micro batches in " + std::to_string(sections) + " sections");
        const JobRun cut = Pipeline("cut" + m + std::to_string(sections), sections, micro);
        EXPECT_EQ(cut.result.params_sha256, one.result.params_sha256);
        EXPECT_EQ(cut.result.accuracy, one.result.accuracy) << "evaluation goes through all ranks";
        EXPECT_EQ(cut.result.loss, one.result.loss);
        EXPECT_EQ(cut.result.counts.at("pipeline.sections"), sections);
      }
    }
  }
  std::string Refused(const std::string& name, int ranks, const Args& flags) const {
    Args args = {"--pipeline=true"};
    args.insert(args.end(), flags.begin(), flags.end());
    const auto job = StartJob(name, Ranks(ranks), args);
    EXPECT_EQ(job->Wait(), 2) << job->Output();
    return job->Output();
  }
};

TEST_F(PipelineTest, LenetHasTheBitsOfOneRank) { ExpectTheBitsOfOneRank(); }

TEST_F(PipelineTest, MlpHasTheBitsOfOneRank) {
  UseModel(kMlp);
  ExpectTheBitsOfOneRank();
}

TEST_F(PipelineTest, TransformerWithDropoutHasTheBitsOfOneRank) {
  job_ = Write("job.pbtxt", kTransformer);
  std::string text;
  while (text.size() < 6000) text += "it is said that " + std::to_string(text.size() % 97) + ". ";
  Write("text", text);
  const JobRun one = Merged("one", {"--mode=local"}, 4), cut = Pipeline("cut", 3, 4);
  EXPECT_EQ(cut.result.params_sha256, one.result.params_sha256);
  EXPECT_EQ(cut.result.loss, one.result.loss);
  const JobRun again = Pipeline("again", 2, 4,
                                {"--num_threads=2", "--fuse_all_optimizer_ops=true",
                                 "--enable_backward_optimizer_op_deps=false", "--recompute=true",
                                 "--num_iteration_per_run=3"});
  EXPECT_EQ(again.result.params_sha256, one.result.params_sha256);
}

// Attributes of the operators determine the sections. In this program the convolution is in section
// 0.
TEST_F(PipelineTest, SectionsOfAProgram) {
  std::string program = kProgramText;
  for (const auto& [type, device] : {std::pair("conv2d", "gpu:0"), std::pair("pool2d", "gpu:1")}) {
    const std::string line = absl::StrFormat("type: \"%s\"\n", type);
    program.insert(program.find(line) + line.size(),
                   absl::StrFormat("attr { name: \"op_device\" s: \"%s\" }\n", device));
  }
  Write("net.pbtxt", program);
  job_ = Write("job.pbtxt", R"(name: "net" model { program: "net.pbtxt" }
data { format: "synthetic"
  synthetic { image: 3 image: 8 image: 8 classes: 10 samples: 320 test_samples: 32 } }
optimizer { type: "momentum" learning_rate: 0.02 }
global_batch_size: 16 eval_every_epochs: 0)");
  EXPECT_EQ(Pipeline("cut", 2, 2).result.params_sha256,
            Merged("one", {"--mode=local"}, 2).result.params_sha256);
  EXPECT_THAT(Refused("three", 3, {}), HasSubstr("is not a multiple of the number of sections, 2"));
}

// Two replicas of two sections give the same bits as two ranks with the whole program each.
TEST_F(PipelineTest, ReplicasReduceTheirGradients) {
  const JobRun cut = Pipeline("cut", 4, 2, {"--model.sections=2"});
  EXPECT_EQ(cut.result.params_sha256, Merged("whole", Ranks(2), 2).result.params_sha256);
  EXPECT_EQ(cut.result.counts.at("communicators"), 4);
}

// Each rank has only the operators, parameters and slots of its section.
TEST_F(PipelineTest, EachRankHasItsSection) {
  const graph::Program whole = Programs({{"mode", "collective"}}, 3).train;
  std::multiset<std::string> params, slots;
  int updates = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const graph::Program train =
        Programs({{"mode", "collective"}, {"pipeline", "true"}, {"micro_batch", "2"}}, 3, rank)
            .train;
    for (const graph::Var* var : train.VarsOf(graph::VarKind::kParam)) params.insert(var->name);
    for (const graph::Var* var : train.VarsOf(graph::VarKind::kState)) {
      if (var->name.find("@velocity") != std::string::npos) slots.insert(var->name);
    }
    updates += Count(train, "momentum");
    EXPECT_GT(Count(train, "send_v2"), 0);
    EXPECT_EQ(train.loss.empty(), rank == 1) << "the last has it, and tells rank 0";
  }
  std::multiset<std::string> all, all_slots;
  for (const graph::Var* var : whole.VarsOf(graph::VarKind::kParam)) all.insert(var->name);
  for (const graph::Var* var : whole.VarsOf(graph::VarKind::kState)) {
    if (var->name.find("@velocity") != std::string::npos) all_slots.insert(var->name);
  }
  EXPECT_EQ(params, all);
  EXPECT_EQ(slots, all_slots);
  EXPECT_EQ(updates, Count(whole, "momentum"));
}

// Checkpoints are complete, and can be loaded with any number of ranks.
TEST_F(PipelineTest, CheckpointsGoOnAnywhere) {
  const auto store = [this](const std::string& name, int steps) {
    return Args{"--checkpoint.dir=" + Path(name), "--checkpoint.every_steps=6",
                "--steps_max=" + std::to_string(steps)};
  };
  const std::string undisturbed = Merged("whole", {"--mode=local"}, 2).result.params_sha256;
  Pipeline("first", 2, 2, store("forth", 6));
  EXPECT_EQ(Merged("then", {"--mode=local"}, 2, store("forth", 12)).result.params_sha256,
            undisturbed);
  Merged("start", {"--mode=local"}, 2, store("back", 6));
  EXPECT_EQ(Pipeline("end", 3, 2, store("back", 12)).result.params_sha256, undisturbed);
}

TEST_F(PipelineTest, RankZeroTellsLossAndMetric) {
  // Returns the value of `what` in the output line of the last printed step; -1: the line has no
  // such value.
  const auto told = [](const JobRun& run, const std::string& what) {
    const size_t line = run.output.rfind("\nstep="), at = run.output.find(what + "=", line);
    return at == std::string::npos ? -1 : std::atof(run.output.c_str() + at + what.size() + 1);
  };
  const JobRun cut = Pipeline("cut", 2, 2), one = Merged("one", {"--mode=local"}, 2);
  EXPECT_GT(told(cut, "loss"), 0) << cut.output;
  EXPECT_NEAR(told(cut, "loss"), told(one, "loss"), 1e-5);
  EXPECT_NEAR(told(cut, "accuracy"), told(one, "accuracy"), 1e-5);
}

TEST_F(PipelineTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(
      Refused("ranks", 3, {"--model.sections=2"}),
      AllOf(HasSubstr(
                "pipeline: the number of ranks, 3, is not a multiple of the number of sections, 2"),
            HasSubstr("2 or 4 ranks")));
  EXPECT_THAT(Refused("batch", 2, {"--micro_batch=3"}),
              AllOf(HasSubstr("into 1 replicas with 3 micro batches each"),
                    HasSubstr("126 or 129 samples")));
  EXPECT_THAT(Refused("merge", 2, {"--gradient_merge=true"}), HasSubstr("exclude each other"));
  EXPECT_THAT(Refused("amp", 2, {"--amp=true"}), HasSubstr("exclude each other"));
}

// A killed rank ends the job, and the output names the rank.
TEST_F(PipelineTest, ADeadRankIsNamed) {
  const auto job =
      StartJob("killed", Ranks(3), {"--pipeline=true", "--micro_batch=2", "--epochs=1000"});
  ASSERT_TRUE(job->WaitForText("step=")) << job->Output();
  kill(TrainerOf(*job, 1), SIGKILL);
  EXPECT_NE(job->Wait(), 0);
  // Rank 0 prints the name of the killed rank. The launcher may stop the other ranks before they
  // print it.
  EXPECT_THAT(job->Output(), HasSubstr("rank 1 ("));
}

}  // namespace
}  // namespace tandem::trainer
