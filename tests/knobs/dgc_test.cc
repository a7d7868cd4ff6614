// dgc, rampup_begin_step, rampup_step and sparsity: which elements of which gradients a rank sends
// at which step. No gradient may be lost.
#include "kernels/graph/distribute/dgc.h"

#include "gmock/gmock.h"
#include "kernels/ops/update/dgc.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;

const Args kTwoRanks = {"--mode=collective", "--nproc=2"};

class DgcTest : public KnobProgramTest {
 protected:
  // Runs two ranks for 20 steps, unless `flags` sets another number of steps.
  JobRun Two(const std::string& name, const Args& flags) const {
    Args args = {"--steps_max=20"};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunJob(name, kTwoRanks, args);
  }
  static double Bytes(const JobRun& run) { return run.result.counts.at("comm_bytes"); }
};

TEST(DgcRuleTest, WalksTheListOnce) {
  const graph::DgcRule rule = {.begin_step = 10, .ramp_steps = 5, .sparsity = {0.5, 0.75, 0.9}};
  std::vector<float> walked;
  for (int64_t step = 10; step < 18; ++step) walked.push_back(rule.SparsityAt(step));
  EXPECT_THAT(walked, ElementsAre(0.5f, 0.5f, 0.75f, 0.75f, 0.9f, 0.9f, 0.9f, 0.9f));
}

// Only one of LeNet's ten parameters is large enough for compression. It has 400 x 120 elements.
TEST_F(DgcTest, CompressesLargeParametersAlone) {
  const graph::Program train = Programs({{"mode", "collective"}, {"dgc", "true"}}, 2).train;
  std::vector<std::string> compressed;
  for (const ops::Op& op : train.ops) {
    if (op.type == "dgc_update") compressed.push_back(op.inputs[0][0]);
  }
  ASSERT_EQ(compressed.size(), 1u) << graph::Dump(train);
  EXPECT_EQ(train.FindVar(compressed[0])->desc.shape.numel(), 48000);
  EXPECT_EQ(Count(train, "dgc_compress"), 1);
  EXPECT_EQ(Count(train, "c_allgather_selected"), 1);
  EXPECT_EQ(Count(train, "momentum"), 10);
}

TEST_F(DgcTest, SendsWholeGradientsUntilItBegins) {
  const Args sent = {"--enable_backward_optimizer_op_deps=false", "--fuse_all_optimizer_ops=true"};
  Args late = sent;
  late.insert(late.end(), {"--dgc=true", "--dgc_configs.rampup_begin_step=20"});
  const JobRun plain = Two("plain", sent), dgc = Two("dgc", late);
  EXPECT_EQ(dgc.result.params_sha256, plain.result.params_sha256);
  EXPECT_EQ(Bytes(dgc), Bytes(plain));
}

TEST_F(DgcTest, SendsTheShareThatIsAskedFor) {
  const double whole = Bytes(Two("plain", {}));
  const auto saved = [](double sparsity) {
    const int64_t words = ops::SelectionWords(ops::SelectedOf(48000, static_cast<float>(sparsity)));
    return 4.0 * static_cast<double>(48000 - words);
  };
  EXPECT_EQ(Bytes(Two("default", {"--dgc=true"})), whole - 20 * saved(0.999));
  EXPECT_EQ(Bytes(Two("ninety", {"--dgc=true", "--dgc_configs.sparsity=0.9"})),
            whole - 20 * saved(0.9));
  const JobRun ramp =
      Two("ramp", {"--dgc=true", "--dgc_configs.sparsity=0.75,0.9375,0.99",
                   "--dgc_configs.rampup_begin_step=4", "--dgc_configs.rampup_step=6"});
  EXPECT_EQ(Bytes(ramp), whole - 2 * saved(0.75) - 2 * saved(0.9375) - 12 * saved(0.99));
  for (const char* line : {"dgc: sparsity=0.75 at step 5", "dgc: sparsity=0.9375 at step 7",
                           "dgc: sparsity=0.99 at step 9"}) {
    EXPECT_THAT(ramp.output, HasSubstr(line));
  }
}

// With sparsity 0, each step sends all elements, and no velocity remains for later steps. Thus dgc
// equals SGD.
TEST_F(DgcTest, WithoutSparsityAndMomentumItIsSgd) {
  const JobRun sgd = Two("sgd", {"--optimizer.type=sgd"});
  const JobRun all =
      Two("all", {"--dgc=true", "--dgc_configs.sparsity=0", "--optimizer.momentum=0"});
  EXPECT_NEAR(all.result.loss, sgd.result.loss, 1e-4 * sgd.result.loss);
  const JobRun nesterov = Two("nesterov", {"--dgc=true", "--optimizer.use_nesterov=true"});
  EXPECT_NE(nesterov.result.params_sha256, Two("dgc", {"--dgc=true"}).result.params_sha256);
}

TEST_F(DgcTest, LearnsAsWell) {
  const Args steps = {"--steps_max=150"};
  Args dgc = steps;
  dgc.insert(dgc.end(),
             {"--dgc=true", "--dgc_configs.rampup_begin_step=20", "--dgc_configs.rampup_step=50",
              "--dgc_configs.sparsity=0.75,0.9375,0.984375,0.996,0.999"});
  const JobRun plain = Two("plain", steps), run = Two("run", dgc);
  EXPECT_NEAR(run.result.loss, plain.result.loss, 0.1 * plain.result.loss);
  EXPECT_NEAR(run.result.accuracy, plain.result.accuracy, 0.05);
}

TEST_F(DgcTest, TheWayTheProgramIsRunChangesNoBit) {
  const auto sha = [this](const std::string& name, Args flags) {
    flags.insert(flags.end(),
                 {"--dgc=true", "--dgc_configs.rampup_begin_step=5", "--dgc_configs.sparsity=0.9"});
    return Two(name, flags).result.params_sha256;
  };
  const std::string want = sha("plain", {});
  EXPECT_EQ(sha("passes", {"--enable_backward_optimizer_op_deps=false",
                           "--fuse_all_optimizer_ops=true", "--enable_auto_fusion=true"}),
            want);
  EXPECT_EQ(sha("threads", {"--num_threads=2"}), want);
  EXPECT_EQ(sha("communicators", {"--nccl_comm_num=3", "--sync_nccl_allreduce=false",
                                  "--fuse_all_reduce_ops=false"}),
            want);
  EXPECT_EQ(sha("tcp", {"--collective_transport=Tcp"}), want);
  EXPECT_EQ(sha("again", {}), want);
}

// Each rank decays and clips its own part of the gradient, so that the sum has the usual decay and
// clipping.
TEST_F(DgcTest, DecaysAndClipsEachRanksPart) {
  const Args whole = {"--dgc=true", "--dgc_configs.rampup_begin_step=1000"};
  const auto both = [&](const std::string& name, const Args& more) {
    Args dgc = whole;
    dgc.insert(dgc.end(), more.begin(), more.end());
    return std::pair(Two(name + "_dgc", dgc).result, Two(name, more).result);
  };
  const auto [decayed, decay] = both("decay", {"--optimizer.l2_decay=0.5"});
  EXPECT_NEAR(decayed.loss, decay.loss, 1e-4 * decay.loss);
  EXPECT_NE(decayed.params_sha256, Two("without", whole).result.params_sha256);
  const auto [clipped, clip] = both("clip", {"--optimizer.clip_norm=0.05"});
  EXPECT_NEAR(clipped.loss, clip.loss, 0.05 * clip.loss);
  EXPECT_NE(clipped.params_sha256, clip.params_sha256) << "the limit is each rank's own";
}

// A checkpoint holds the sum of the unsent gradients of all ranks. A job with another number of
// ranks, or without dgc, can resume from this checkpoint.
TEST_F(DgcTest, CheckpointsLoseNothing) {
  const auto run = [this](const std::string& name, const std::string& store, int steps,
                          const std::string& ranks, const Args& more) {
    Args args = {"--checkpoint.dir=" + Path(store), "--checkpoint.every_steps=30",
                 "--steps_max=" + std::to_string(steps)};
    args.insert(args.end(), more.begin(), more.end());
    return RunJob(name, {"--mode=collective", "--nproc=" + ranks}, args).result;
  };
  const Args dgc = {"--dgc=true", "--dgc_configs.rampup_begin_step=5",
                    "--dgc_configs.sparsity=0.99"};
  const JobResult whole = run("whole", "a", 60, "2", dgc);
  run("first", "b", 30, "2", dgc);
  run("first", "e", 30, "2", dgc);
  const JobResult then = run("then", "b", 60, "2", dgc);
  EXPECT_NEAR(then.loss, whole.loss, 0.05 * whole.loss);
  // A job whose dgc begins at the step of the checkpoint resumes with the same bits as a job whose
  // dgc began earlier.
  const Args anew = {"--dgc=true", "--dgc_configs.rampup_begin_step=30",
                     "--dgc_configs.sparsity=0.99"};
  EXPECT_EQ(run("anew", "e", 60, "2", anew).params_sha256, then.params_sha256);
  run("two", "c", 30, "2", dgc);
  EXPECT_NEAR(run("three", "c", 60, "3", dgc).loss, whole.loss, 0.05 * whole.loss);
  run("compressed", "d", 30, "2", dgc);
  EXPECT_NEAR(run("plain", "d", 60, "2", {}).loss, whole.loss, 0.1 * whole.loss);
}

TEST_F(DgcTest, RefusesWhatItCannotDo) {
  const auto error = [this](const std::string& name, const Args& more) {
    Args args = {"--dgc=true"};
    args.insert(args.end(), more.begin(), more.end());
    const auto job = StartJob(name, kTwoRanks, args);
    EXPECT_NE(job->Wait(), 0);
    return job->Output();
  };
  EXPECT_THAT(error("adam", {"--optimizer.type=adam"}),
              HasSubstr("dgc: true needs optimizer momentum, but the job uses optimizer adam"));
  EXPECT_THAT(error("amp", {"--amp=true"}), HasSubstr("dgc and amp"));
  EXPECT_THAT(error("reduce", {"--reduce_strategy=Reduce"}), HasSubstr("exclude each other"));
  EXPECT_THAT(error("clip", {"--optimizer.clip_global_norm=1"}),
              HasSubstr("dgc with clip_global_norm is not implemented"));
}

}  // namespace
}  // namespace tandem::trainer
