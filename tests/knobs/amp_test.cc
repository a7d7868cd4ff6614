// amp and amp_configs: the operators that compute in 16 bits, the values of the loss scale, and the
// steps that are skipped after an overflow.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class AmpTest : public KnobProgramTest {
 protected:
  JobPrograms Amp(Overrides more = {}) {
    more.emplace_back("amp", "true");
    return Programs(more);
  }
  // Returns the element type of input `i` of the first operator of type `op_type`.
  static DType InputType(const graph::Program& program, const std::string& op_type, size_t i = 0) {
    for (const ops::Op& op : program.ops) {
      if (op.type == op_type) return program.FindVar(op.inputs[i][0])->desc.dtype;
    }
    ADD_FAILURE() << "no " << op_type;
    return DType::kU8;
  }
  // Returns the number of variables that more than one cast operator reads.
  static int CastTwice(const graph::Program& program) {
    std::map<std::string, int> casts;
    int twice = 0;
    for (const ops::Op& op : program.ops) {
      if (op.type == "cast" && ++casts[op.inputs[0][0]] == 2) ++twice;
    }
    return twice;
  }
  static std::vector<float> ScaleAfter(const graph::Program& program, int steps) {
    const Ran ran = Run(program, steps);
    return {ran.state.at("loss_scaling")[0], ran.state.at("loss_scaling.good_steps")[0],
            ran.state.at("loss_scaling.bad_steps")[0]};
  }
};

// Any f16 gradient overflows with this scale.
const Overrides kOverflow = {{"amp_dtype", "f16"}, {"init_loss_scaling", "1e30"}};
Overrides Overflowing(Overrides more) {
  more.insert(more.end(), kOverflow.begin(), kOverflow.end());
  return more;
}

TEST_F(AmpTest, ProductsAndWhatLiesBetweenThem) {
  const JobPrograms programs = Amp();
  const graph::Program& train = programs.train;
  for (const char* type : {"conv2d", "conv2d_grad", "pool2d", "fc", "fc_grad"}) {
    EXPECT_EQ(InputType(train, type), DType::kBF16) << type;
  }
  EXPECT_EQ(InputType(train, "conv2d", 1), DType::kBF16) << "the filter";
  EXPECT_EQ(InputType(train, "softmax_with_cross_entropy"), DType::kF32);
  EXPECT_EQ(InputType(train, "momentum"), DType::kF32) << "the parameter";
  EXPECT_EQ(InputType(train, "momentum", 1), DType::kF32) << "the gradient";
  EXPECT_EQ(CastTwice(train), 0);
  EXPECT_GT(ReportOf(programs, "amp").outcome.matched, 0);
  EXPECT_EQ(InputType(Amp({{"amp_dtype", "f16"}}).train, "conv2d"), DType::kF16);
  EXPECT_EQ(Count(Programs({}).train, "cast"), 0);
  EXPECT_EQ(InputType(programs.forward, "conv2d"), DType::kF32) << "evaluation stays f32";
}

TEST_F(AmpTest, CustomLists) {
  const graph::Program black = Amp({{"custom_black_list", "conv2d"}}).train;
  EXPECT_EQ(InputType(black, "conv2d"), DType::kF32);
  EXPECT_EQ(InputType(black, "pool2d"), DType::kF32) << "it follows";
  EXPECT_EQ(InputType(black, "fc"), DType::kBF16);
  const graph::Program seeds = Amp({{"custom_black_list", "mul"}}).train;
  EXPECT_EQ(InputType(seeds, "fc"), DType::kF32) << "Paddle's name";
  const std::string filter = Programs({}).train.VarsOf(graph::VarKind::kParam)[0]->name;
  const graph::Program var = Amp({{"custom_black_varnames", filter}}).train;
  EXPECT_EQ(InputType(var, "conv2d"), DType::kF32) << filter;
  EXPECT_EQ(InputType(var, "fc"), DType::kBF16);
  UseModel("zoo: \"mlp\"");
  // Directly after the input data, an operator of the gray list stays f32. An operator of the white
  // list computes in bf16.
  EXPECT_EQ(InputType(Amp().train, "reshape"), DType::kF32);
  EXPECT_EQ(InputType(Amp({{"custom_white_list", "reshape"}}).train, "reshape"), DType::kBF16);
}

// A loss scale that is a power of 2 changes no bit if no value overflows or underflows.
TEST_F(AmpTest, TheScaleIsTakenOutAgain) {
  const auto params = [this](const char* scale) {
    return Run(Amp({{"init_loss_scaling", scale}, {"use_dynamic_loss_scaling", "false"}}).train, 3)
        .params;
  };
  EXPECT_EQ(params("1024"), params("1"));
  EXPECT_NE(params("1"), Run(Programs({}).train, 3).params) << "f32";
}

TEST_F(AmpTest, GrowsEveryNSteps) {
  const graph::Program train =
      Amp({{"init_loss_scaling", "128"}, {"incr_every_n_steps", "3"}, {"incr_ratio", "4"}}).train;
  EXPECT_EQ(ScaleAfter(train, 2), (std::vector<float>{128, 2, 0}));
  EXPECT_EQ(ScaleAfter(train, 3), (std::vector<float>{512, 0, 0}));
  EXPECT_EQ(ScaleAfter(train, 7), (std::vector<float>{2048, 1, 0}));
  EXPECT_EQ(ScaleAfter(Amp().train, 3), (std::vector<float>{32768, 3, 0}));
}

TEST_F(AmpTest, ShrinksWithOverflows) {
  const graph::Program train =
      Amp(Overflowing({{"decr_every_n_nan_or_inf", "3"}, {"decr_ratio", "0.25"}})).train;
  EXPECT_EQ(ScaleAfter(train, 2), (std::vector<float>{1e30f, 0, 2}));
  EXPECT_EQ(ScaleAfter(train, 3), (std::vector<float>{0.25e30f, 0, 0}));
}

// A step with an overflow changes neither the parameters nor the momentum, and applies no decay.
TEST_F(AmpTest, AStepWithAnOverflowIsLeftOut) {
  for (const char* dynamic : {"true", "false"}) {
    const graph::Program train =
        Amp(Overflowing({{"use_dynamic_loss_scaling", dynamic}, {"optimizer.l2_decay", "0.1"}}))
            .train;
    const Ran ran = Run(train, 4);
    EXPECT_EQ(ran.params, Run(train, 0).params);
    for (const auto& [name, values] : ran.state) {
      if (name.find("loss_scaling") != std::string::npos || name == "learning_rate") continue;
      EXPECT_EQ(values, std::vector<float>(values.size())) << name;
    }
  }
  // Updates continue after the loss scale has decreased enough.
  const graph::Program train =
      Amp(Overflowing({{"decr_every_n_nan_or_inf", "1"}, {"decr_ratio", "1e-3"}})).train;
  EXPECT_EQ(Run(train, 7).params, Run(train, 0).params);
  EXPECT_NE(Run(train, 12).params, Run(train, 0).params);
}

TEST_F(AmpTest, GradientsTravelIn16Bits) {
  const Overrides collective = {{"mode", "collective"}, {"fuse_grad_size_in_MB", "1024"}};
  EXPECT_EQ(InputType(Programs(collective, 2).train, "c_allreduce_sum"), DType::kF32);
  const graph::Program train = [&] {
    Overrides amp = collective;
    amp.emplace_back("amp", "true");
    return Programs(amp, 2).train;
  }();
  int half = 0, whole = 0;
  for (const ops::Op& op : train.ops) {
    if (op.type != "c_allreduce_sum") continue;
    for (const std::string& name : op.inputs[0]) {
      (train.FindVar(name)->desc.dtype == DType::kBF16 ? half : whole) += 1;
    }
  }
  EXPECT_EQ(half, 5) << "filters and weights";
  EXPECT_EQ(whole, 5) << "biases";
}

// If each parameter has an owner, a rank sees only the gradient sums of the parameters that it
// owns. Therefore one more collective reports the overflows of other ranks.
TEST_F(AmpTest, OwnersAgree) {
  const Overrides owners = {{"mode", "collective"}, {"reduce_strategy", "Reduce"}, {"amp", "true"}};
  const graph::Program train = Programs(owners, 2).train;
  EXPECT_EQ(Count(train, "c_allreduce_sum"), 1);
  size_t last_reduce = 0, agreement = 0, first_update = 0;
  for (size_t i = 0; i < train.ops.size(); ++i) {
    if (train.ops[i].type == "c_reduce_sum") last_reduce = i;
    if (train.ops[i].type == "c_allreduce_sum") agreement = i;
    if (train.ops[i].type != "momentum") continue;
    if (first_update == 0) first_update = i;
    EXPECT_EQ(train.ops[i].run_if, "loss_scaling@ALL_FINITE_EVERYWHERE");
  }
  EXPECT_LT(last_reduce, agreement);
  EXPECT_LT(agreement, first_update);
}

// Pservers apply every push. Therefore a trainer sends zeros as gradients after an overflow.
TEST_F(AmpTest, ZerosToPservers) {
  const JobPrograms programs = Amp(Overflowing({{"mode", "pserver"}}));
  EXPECT_EQ(InputType(programs.train, "push_pull"), DType::kF32);
  EXPECT_EQ(Count(programs.train, "fill_constant"), 1 + 10);
  EXPECT_EQ(ReportOf(programs, "amp.loss_scaling").outcome.matched, 10);
}

TEST_F(AmpTest, GoesWithMergedGradientsAndFusedUpdates) {
  const auto merged = [this](const Overrides& more) {
    Overrides all = {{"gradient_merge", "true"}, {"gradient_merge_k_steps", "4"}};
    all.insert(all.end(), more.begin(), more.end());
    return Amp(all).train;
  };
  const Overrides sgd = {{"init_loss_scaling", "1024"}};
  EXPECT_EQ(Run(merged(sgd), 11).params, Run(Amp(sgd).train, 2).params);
  EXPECT_EQ(Run(merged(sgd), 12).params, Run(Amp(sgd).train, 3).params);
  EXPECT_EQ(ScaleAfter(merged(sgd), 11)[1], 2) << "two updates";
  const graph::Program overflow = merged(kOverflow);
  EXPECT_EQ(Run(overflow, 8).params, Run(overflow, 0).params);
  const Overrides fused = {{"fuse_all_optimizer_ops", "true"}, {"init_loss_scaling", "1024"}};
  EXPECT_EQ(Run(Amp(fused).train, 3).params, Run(Amp(sgd).train, 3).params);
  UseModel("zoo: \"resnet18\" arg { name: \"stem\" value: \"3\" }");
  const Overrides chains = {{"enable_auto_fusion", "true"}, {"init_loss_scaling", "1024"}};
  EXPECT_GT(ReportOf(Amp(chains), "enable_auto_fusion").outcome.matched, 0);
  EXPECT_EQ(Run(Amp(chains).train, 2).params, Run(Amp(sgd).train, 2).params);
}

// A checkpoint contains the loss scale, which this job increases at every fourth step.
TEST_F(AmpTest, ResumesInEveryMode) {
  const std::vector<std::string> flags = {"--amp=true", "--init_loss_scaling=2",
                                          "--incr_every_n_steps=4", "--amp_dtype=f16"};
  for (const std::string mode : {"local", "collective"}) {
    const std::string whole = Sha(mode + "_whole", mode, flags);
    std::vector<std::string> broken = flags;
    broken.push_back("--checkpoint.dir=" + Path(mode + "_checkpoints"));
    broken.push_back("--checkpoint.every_steps=7");
    std::vector<std::string> first = broken;
    first.push_back("--steps_max=7");
    std::vector<std::string> launch = {"--mode=" + mode};
    if (mode != "local") launch.push_back("--nproc=2");
    EXPECT_EQ(RunJob(mode + "_first", launch, first).exit_code, 0);
    EXPECT_EQ(Sha(mode + "_second", mode, broken), whole) << mode;
  }
}

TEST_F(AmpTest, LearnsAsF32Does) {
  const std::vector<std::string> steps = {"--steps_max=150"};
  const JobRun f32 = RunJob("f32", {"--mode=local"}, steps);
  struct Way {
    const char* name;
    std::vector<std::string> launch, flags;
  };
  const Way ways[] = {
      {"bf16", {"--mode=local"}, {}},
      {"f16", {"--mode=local"}, {"--amp_dtype=f16"}},
      {"collective", {"--mode=collective", "--nproc=2"}, {}},
      {"owners", {"--mode=collective", "--nproc=2"}, {"--reduce_strategy=Reduce"}},
      {"pserver", {"--mode=pserver", "--servers=1", "--workers=2"}, {}},
  };
  for (const Way& way : ways) {
    std::vector<std::string> flags = {"--steps_max=150", "--amp=true"};
    flags.insert(flags.end(), way.flags.begin(), way.flags.end());
    const JobRun run = RunJob(way.name, way.launch, flags);
    EXPECT_NEAR(run.result.loss, f32.result.loss, 0.1 * f32.result.loss + 0.01) << way.name;
    EXPECT_NE(run.result.params_sha256, f32.result.params_sha256) << way.name;
  }
}

}  // namespace
}  // namespace tandem::trainer
