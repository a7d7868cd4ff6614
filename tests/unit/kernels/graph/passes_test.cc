// Tests of passes: programs before and after them, conditions, drawings, the grouping of gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kernels/exec/executor.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/draw.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "proto/strategy.pb.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the program x [4, width] -> h = fc(width) -> relu(h + x) -> loss.
graph::Program Residual(int64_t width = 3) {
  graph::ProgramBuilder b("residual", 4);
  const auto x = b.Data("x", DType::kF32, {width});
  b.SoftmaxLoss(b.Relu(b.Add(b.Fc(x, width), x)), b.Data("label", DType::kI64, {1}));
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  return *std::move(program);
}

// Returns a strategy that turns off the passes that are on by default.
DistributedStrategy Nothing() {
  DistributedStrategy strategy;
  strategy.mutable_build_strategy()->set_fuse_bn_add_act_ops(false);
  strategy.mutable_build_strategy()->set_fused_attention(false);
  strategy.mutable_runtime_flags()->set_use_mkldnn(false);
  return strategy;
}

// Runs the passes of one stage that `strategy` requests.
std::vector<graph::PassReport> RunPasses(const DistributedStrategy& strategy,
                                         graph::PassStage stage, graph::Program& program,
                                         std::vector<graph::ParamGrad>& grads) {
  graph::PassPipeline pipeline(strategy, nullptr);
  const Status status = pipeline.Run(stage, program, grads);
  EXPECT_TRUE(status.ok()) << status;
  return pipeline.TakeReports();
}

// Returns the residual program after the forward passes, autodiff and the update passes, with this
// optimizer.
graph::Program Trained(const DistributedStrategy& strategy, const graph::OptimizerSpec& optimizer,
                       int64_t width = 3) {
  graph::Program program = Residual(width);
  std::vector<graph::ParamGrad> grads;
  RunPasses(strategy, graph::PassStage::kForward, program, grads);
  grads = *graph::AppendBackward(program, 1.0f);
  RunPasses(strategy, graph::PassStage::kBackward, program, grads);
  CHECK(graph::AppendOptimizer(program, optimizer, grads).ok());
  RunPasses(strategy, graph::PassStage::kUpdate, program, grads);
  return program;
}

// Returns the parameters after `steps` steps with learning rate 0.1.
std::map<std::string, std::vector<float>> Train(const graph::Program& program, int steps) {
  CpuDevice device;
  exec::Scope scope(device);
  CHECK(exec::Initialize(program, 7, scope).ok());
  exec::PlanOptions options;
  options.threads = 2;
  auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, options);
  CHECK(plan.ok()) << plan.status();
  auto x = (*plan)->Get("x")->span<float>();
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2.0f;
  for (auto& label : (*plan)->Get("label")->span<int64_t>()) label = 1;
  scope.Find(graph::kLearningRateVar)->span<float>()[0] = 0.1f;
  const Status status = exec::Executor(**plan).Run(steps);
  CHECK(status.ok()) << status;
  std::map<std::string, std::vector<float>> values;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
    const auto span = scope.Find(var->name)->span<float>();
    values[var->name] = {span.begin(), span.end()};
  }
  return values;
}

std::vector<std::string> Types(const graph::Program& program) {
  std::vector<std::string> types;
  for (const ops::Op& op : program.ops) types.push_back(op.type);
  return types;
}

TEST(Passes, AreNamedLikeTheirKnobs) {
  const auto* top = DistributedStrategy::descriptor();
  const auto* build = BuildStrategy::descriptor();
  for (const graph::Pass& pass : graph::AllPasses()) {
    const std::string name(pass.name), knob = name.substr(0, name.find('.'));
    EXPECT_TRUE(top->FindFieldByName(knob) != nullptr || build->FindFieldByName(knob) != nullptr ||
                RuntimeFlags::descriptor()->FindFieldByName(knob) != nullptr)
        << pass.name;
    EXPECT_NE(std::string(pass.doc), "");
  }
}

TEST(Passes, OnlyWhatIsAskedForRuns) {
  graph::Program program = Residual();
  const std::string before = graph::Dump(program);
  std::vector<graph::ParamGrad> grads;
  EXPECT_TRUE(RunPasses(Nothing(), graph::PassStage::kForward, program, grads).empty());
  EXPECT_EQ(graph::Dump(program), before);
}

TEST(Passes, ReportSaysWhyThereWasNoPlace) {
  DistributedStrategy strategy = Nothing();
  strategy.mutable_build_strategy()->set_fuse_elewise_add_act_ops(true);
  graph::ProgramBuilder b("plain", 4);
  b.SoftmaxLoss(b.Fc(b.Data("x", DType::kF32, {3}), 3), b.Data("label", DType::kI64, {1}));
  graph::Program program = *b.Finish();
  std::vector<graph::ParamGrad> grads;
  const auto reports = RunPasses(strategy, graph::PassStage::kForward, program, grads);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(graph::ReportText(reports),
            "pass fuse_elewise_add_act_ops: not applied: there is no elementwise_add\n");
}

TEST(Passes, FuseElewiseAddActBeforeAndAfter) {
  DistributedStrategy strategy;
  graph::Program program = Residual();
  EXPECT_THAT(Types(program),
              ElementsAre("fc", "elementwise_add", "relu", "softmax_with_cross_entropy", "mean"));
  strategy.mutable_build_strategy()->set_fuse_elewise_add_act_ops(true);
  std::vector<graph::ParamGrad> grads;
  RunPasses(strategy, graph::PassStage::kForward, program, grads);
  EXPECT_THAT(Types(program),
              ElementsAre("fc", "fused_elemwise_activation", "softmax_with_cross_entropy", "mean"));
  EXPECT_EQ(std::get<std::string>(program.ops[1].attrs.at("functors")), "relu,elementwise_add");
  EXPECT_EQ(Train(Trained(strategy, {}), 5), Train(Trained({}, {}), 5));
}

TEST(Passes, FuseElewiseAddActTakesTheActivationOfY) {
  DistributedStrategy strategy = Nothing();
  strategy.mutable_build_strategy()->set_fuse_elewise_add_act_ops(true);
  graph::ProgramBuilder b("inner", 4);
  const auto x = b.Data("x", DType::kF32, {3});
  b.Add(x, b.Relu(b.Fc(x, 3)));
  graph::Program program = *b.Finish();
  std::vector<graph::ParamGrad> grads;
  RunPasses(strategy, graph::PassStage::kForward, program, grads);
  EXPECT_THAT(Types(program), ElementsAre("fc", "fused_elemwise_activation"));
  EXPECT_EQ(std::get<std::string>(program.ops[1].attrs.at("functors")), "elementwise_add,relu");
}

TEST(Passes, FuseElewiseAddActLeavesASumThatOthersRead) {
  DistributedStrategy strategy = Nothing();
  strategy.mutable_build_strategy()->set_fuse_elewise_add_act_ops(true);
  graph::ProgramBuilder b("shared", 4);
  const auto x = b.Data("x", DType::kF32, {3});
  const auto sum = b.Add(b.Fc(x, 3), x);
  b.Fc(sum, 2);
  b.Relu(sum);
  graph::Program program = *b.Finish();
  std::vector<graph::ParamGrad> grads;
  const auto reports = RunPasses(strategy, graph::PassStage::kForward, program, grads);
  EXPECT_THAT(Types(program), ElementsAre("fc", "elementwise_add", "fc", "relu"));
  EXPECT_THAT(reports[0].outcome.reason, HasSubstr("none of 1 elementwise_add"));
}

TEST(Passes, FuseOptimizerBeforeAndAfter) {
  DistributedStrategy strategy;
  const graph::OptimizerSpec adam = {.type = "adam"};
  const graph::Program plain = Trained(strategy, adam);
  strategy.mutable_build_strategy()->set_fuse_all_optimizer_ops(true);
  const graph::Program fused = Trained(strategy, adam);
  EXPECT_THAT(graph::Dump(plain), Not(HasSubstr("fused")));
  EXPECT_EQ(fused.ops.size() + 1, plain.ops.size());
  EXPECT_EQ(fused.ops.back().type, "fused_elementwise");
  EXPECT_THAT(graph::Dump(fused), HasSubstr("\n  adam(Param=fc_0.w"));
  EXPECT_EQ(Train(fused, 5), Train(plain, 5));
}

// All blocks of a large parameter read Adam's powers of beta, but only one block writes the new
// powers.
TEST(Passes, FuseOptimizerUpdatesLargeParametersInBlocks) {
  DistributedStrategy strategy;
  int fused = 0;
  for (const std::string& type : graph::OptimizerTypes()) {
    if (*graph::ReachOf({.type = type}) != graph::UpdateScope::kElement) continue;
    strategy.mutable_build_strategy()->set_fuse_all_optimizer_ops(false);
    const auto plain = Train(Trained(strategy, {.type = type}, 130), 5);
    strategy.mutable_build_strategy()->set_fuse_all_optimizer_ops(true);
    const graph::Program program = Trained(strategy, {.type = type}, 130);
    EXPECT_EQ(program.ops.back().type, "fused_elementwise") << type;
    EXPECT_EQ(Train(program, 5), plain) << type;
    ++fused;
  }
  EXPECT_GE(fused, 9);
}

TEST(Passes, FuseOptimizerLeavesThoseThatLookAtWholeParameters) {
  DistributedStrategy strategy;
  strategy.mutable_build_strategy()->set_fuse_all_optimizer_ops(true);
  for (const char* type : {"lamb", "lars_momentum"}) {
    EXPECT_EQ(Trained(strategy, {.type = type}).ops.back().type, type);
  }
}

TEST(Passes, FuseOptimizerKeepsALearningRatePerParameter) {
  const auto with_own_rate = [](bool fuse) {
    graph::Program program = Residual();
    std::vector<graph::ParamGrad> grads = *graph::AppendBackward(program, 1.0f);
    CHECK(graph::AppendOptimizer(program, {.type = "momentum"}, grads).ok());
    CHECK(program
              .AddVar({.name = "slow",
                       .kind = graph::VarKind::kState,
                       .desc = {DType::kF32, {1}},
                       .init = {graph::Init::kConstant, 0.01f}})
              .ok());
    program.ops.back().inputs[3] = {"slow"};
    DistributedStrategy strategy;
    strategy.mutable_build_strategy()->set_fuse_all_optimizer_ops(fuse);
    RunPasses(strategy, graph::PassStage::kUpdate, program, grads);
    EXPECT_EQ(program.ops.back().type, fuse ? "fused_elementwise" : "momentum");
    return Train(program, 5);
  };
  EXPECT_EQ(with_own_rate(true), with_own_rate(false));
  EXPECT_NE(with_own_rate(true), Train(Trained({}, {.type = "momentum"}), 5));
}

// ---- Conditions of operators --------------------------------------------------------------------

TEST(RunIf, LeavesTheOperatorOutWhileItsVariableIsZero) {
  graph::Program program;
  for (const char* name : {"a", "go"}) {
    CHECK(program.AddVar({.name = name, .kind = graph::VarKind::kState, .desc = {DType::kF32, {1}}})
              .ok());
  }
  ops::Op add_one{.type = "scale", .inputs = {{"a"}}, .outputs = {{"a"}}, .attrs = {{"bias", 1.0}}};
  add_one.run_if = "go";
  ASSERT_TRUE(graph::AppendOp(program, add_one).ok());
  ASSERT_TRUE(graph::Verify(program).ok());
  EXPECT_THAT(graph::Dump(program), HasSubstr(" if go"));
  CpuDevice device;
  exec::Scope scope(device);
  ASSERT_TRUE(exec::Initialize(program, 1, scope).ok());
  auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  exec::Executor executor(**plan);
  ASSERT_TRUE(executor.Run(3).ok());
  EXPECT_EQ(scope.Find("a")->span<float>()[0], 0.0f);
  scope.Find("go")->span<float>()[0] = 1.0f;
  ASSERT_TRUE(executor.Run(3).ok());
  EXPECT_EQ(scope.Find("a")->span<float>()[0], 3.0f);
}

TEST(RunIf, RefusesWhatHasNoOtherValueAndConditionsThatAreNone) {
  graph::Program program;
  for (const char* name : {"a", "go"}) {
    CHECK(program.AddVar({.name = name, .kind = graph::VarKind::kState, .desc = {DType::kF32, {1}}})
              .ok());
  }
  ops::Op op{.type = "relu", .inputs = {{"a"}}, .outputs = {{"b"}}};
  op.run_if = "nothing";
  EXPECT_THAT(std::string(graph::AppendOp(program, op).message()), HasSubstr("\"nothing\""));
  op.run_if = "go";
  ASSERT_TRUE(graph::AppendOp(program, op).ok());
  EXPECT_TRUE(graph::Verify(program).ok()) << "nobody reads it";
  ASSERT_TRUE(
      graph::AppendOp(program, {.type = "relu", .inputs = {{"b"}}, .outputs = {{"c"}}}).ok());
  EXPECT_THAT(std::string(graph::Verify(program).message()),
              HasSubstr("\"b\", which is written only under the condition go"));
  program.ops.back().run_if = "go";
  EXPECT_TRUE(graph::Verify(program).ok());
}

// The result of check_finite_and_unscale is the condition of the update. An overflow skips the
// update of the parameter and of the velocity, but not the update of the scale.
TEST(RunIf, AnOverflowLeavesTheWholeUpdateOut) {
  graph::Program program;
  const TensorDesc one = {DType::kF32, {1}};
  const auto state = [&](const char* name, float value) {
    CHECK(program
              .AddVar({.name = name,
                       .kind = graph::VarKind::kState,
                       .desc = one,
                       .init = {graph::Init::kConstant, value}})
              .ok());
  };
  for (const char* name : {"velocity", "good", "bad"}) state(name, 0);
  state("w", 1.0f);
  state("g", 0);
  state("lr", 0.5f);
  state("scale", 128.0f);
  const auto append = [&](ops::Op op) {
    const Status status = graph::AppendOp(program, std::move(op));
    CHECK(status.ok()) << status;
  };
  append({.type = "check_finite_and_unscale",
          .inputs = {{"scale"}, {"g"}},
          .outputs = {{"finite"}, {"gradient"}}});
  ops::Op update{.type = "momentum",
                 .inputs = {{"w"}, {"gradient"}, {"velocity"}, {"lr"}, {}},
                 .outputs = {{"w"}, {"velocity"}}};
  update.run_if = "finite";
  append(update);
  append({.type = "update_loss_scaling",
          .inputs = {{"finite"}, {"scale"}, {"good"}, {"bad"}},
          .outputs = {{"scale"}, {"good"}, {"bad"}},
          .attrs = {{"incr_every_n_steps", int64_t{2}},
                    {"decr_every_n_nan_or_inf", int64_t{2}},
                    {"decr_ratio", 0.5}}});
  CpuDevice device;
  exec::Scope scope(device);
  CHECK(exec::Initialize(program, 1, scope).ok());
  auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  exec::Executor executor(**plan);
  const auto value = [&](const char* name) { return scope.Find(name)->span<float>()[0]; };
  const float inf = std::numeric_limits<float>::infinity();
  struct Row {
    float gradient, w, velocity, scale;
  };
  // The scale falls from 128 to 64 after two overflows in a row. It doubles after two finite steps
  // in a row.
  for (const Row& row : {Row{128, 0.5f, 1, 128}, Row{inf, 0.5f, 1, 128}, Row{inf, 0.5f, 1, 64},
                         Row{0, 0.05f, 0.9f, 64}, Row{0, -0.355f, 0.81f, 128}}) {
    scope.Find("g")->span<float>()[0] = row.gradient;
    ASSERT_TRUE(executor.Run().ok());
    EXPECT_FLOAT_EQ(value("w"), row.w);
    EXPECT_FLOAT_EQ(value("velocity"), row.velocity);
    EXPECT_EQ(value("scale"), row.scale);
  }
}

// ---- Drawings of programs -----------------------------------------------------------------------

TEST(Draw, AGraphWithEveryOperatorAndValue) {
  const std::string dot = graph::ToDot(Residual(), "a \"title\"");
  EXPECT_THAT(dot, HasSubstr("label=\"a \\\"title\\\"\""));
  EXPECT_THAT(dot, HasSubstr("\"fc_0.w\" -> op0"));
  EXPECT_THAT(dot, HasSubstr("op0 -> op1 [label=\"fc_0.out\\n[4,3]\"]"));
  EXPECT_THAT(dot, HasSubstr("label=\"softmax_with_cross_entropy\""));
  EXPECT_EQ(dot, graph::ToDot(Residual(), "a \"title\""));
}

// ---- Grouping of ResNet-50's gradients (He et al., CVPR 2016, table 1) --------------------------

class ResNet50 {
 public:
  // Lists the 161 gradients in the order in which they become ready. With `amp`, the products are
  // computed in 16 bits.
  ResNet50(int64_t classes, bool amp) : weights_(amp ? DType::kF16 : DType::kF32) {
    Add("fc.w", weights_, 2048 * classes);
    Add("fc.b", weights_, classes);
    const int64_t blocks[] = {3, 4, 6, 3};
    for (int64_t stage = 3; stage >= 0; --stage) {
      const int64_t width = int64_t{64} << stage;
      for (int64_t block = blocks[stage] - 1; block >= 0; --block) {
        const int64_t in = block > 0 ? 4 * width : stage > 0 ? 2 * width : 64;
        Conv(width, 4 * width, 1);
        Conv(width, width, 3);
        Conv(in, width, 1);
        if (block == 0) Conv(in, 4 * width, 1);
      }
    }
    Conv(3, 64, 7);
  }

  size_t count() const { return grads_.size(); }
  std::vector<std::vector<graph::ParamGrad>> Groups(double mb, int64_t n) const {
    return graph::GroupGradients(program_, grads_, {mb, n});
  }
  std::vector<std::string> Sizes(double mb, int64_t n) const {
    std::vector<std::string> sizes;
    for (const auto& group : Groups(mb, n)) {
      size_t bytes = 0;
      for (const graph::ParamGrad& pair : group) bytes += program_.FindVar(pair.grad)->desc.bytes();
      sizes.push_back(
          absl::StrFormat("%d/%.1f", group.size(), static_cast<double>(bytes) / 1048576));
    }
    return sizes;
  }

 private:
  void Add(const std::string& name, DType dtype, int64_t n) {
    CHECK(program_.AddVar({.name = name + "@GRAD", .desc = {dtype, {n}}}).ok());
    grads_.push_back({name, name + "@GRAD"});
  }
  void Conv(int64_t in, int64_t out, int64_t kernel) {
    const std::string name = absl::StrFormat("conv%d", layers_++);
    Add("bn_" + name + ".scale", DType::kF32, out);
    Add("bn_" + name + ".bias", DType::kF32, out);
    Add(name + ".w", weights_, in * out * kernel * kernel);
  }

  const DType weights_;
  graph::Program program_;
  std::vector<graph::ParamGrad> grads_;
  int layers_ = 0;
};

TEST(GroupGradients, ResNet50AsInTheReferencesLogs) {
  const ResNet50 net(102, false), amp(102, true);
  EXPECT_EQ(net.count(), 161u);
  EXPECT_EQ(net.Groups(32, 50).size(), 5u);
  EXPECT_EQ(net.Groups(16, 50).size(), 6u);
  EXPECT_EQ(amp.Groups(32, 50).size(), 8u) << "four groups, each split by element type";
}

TEST(GroupGradients, ResNet50WithAThousandClasses) {
  const ResNet50 net(1000, false);
  EXPECT_EQ(net.Groups(16, 50).size(), 7u);
  EXPECT_EQ(net.Groups(32, 20).size(), 8u);
  EXPECT_EQ(net.Groups(-1, 50).size(), 107u) << "one per layer";
  EXPECT_THAT(net.Sizes(32, 50), ElementsAre("17/37.9", "27/32.3", "51/22.6", "51/4.4", "15/0.3"));
}

// Returns the program x [2,3,6,6] -> conv(32) -> batch_norm -> relu -> conv(32) -> batch_norm ->
// add -> relu -> pool -> fc -> loss. The addition takes the output of the first relu.
graph::Program Block() {
  graph::ProgramBuilder b("block", 2);
  const auto conv = [&b](const std::string& x) {
    return b.Conv2d(x, {.channels = 32, .kernel = 3, .padding = 1, .bias = false});
  };
  const auto x = b.BatchNorm(conv(b.Data("x", DType::kF32, {3, 6, 6})), graph::Act::kRelu);
  const auto y = b.Relu(b.Add(b.BatchNorm(conv(x)), x));
  const auto logits = b.Fc(b.Pool2d(y, {.max = false, .global = true}), 3);
  b.SoftmaxLoss(logits, b.Data("label", DType::kI64, {1}));
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  return *std::move(program);
}

TEST(Passes, FuseBnActBeforeAndAfter) {
  DistributedStrategy strategy = Nothing();
  strategy.mutable_build_strategy()->set_fuse_bn_act_ops(true);
  graph::Program program = Block();
  std::vector<graph::ParamGrad> grads;
  RunPasses(strategy, graph::PassStage::kForward, program, grads);
  EXPECT_THAT(Types(program), ElementsAre("conv2d", "fused_bn_add_activation", "conv2d",
                                          "batch_norm", "elementwise_add", "relu", "pool2d",
                                          "reshape", "fc", "softmax_with_cross_entropy", "mean"));
  EXPECT_TRUE(program.ops[1].inputs[5].empty());
}

TEST(Passes, FuseBnAddActTakesTheResidual) {
  DistributedStrategy strategy = Nothing();
  strategy.mutable_build_strategy()->set_fuse_bn_add_act_ops(true);
  graph::Program program = Block();
  std::vector<graph::ParamGrad> grads;
  const auto reports = RunPasses(strategy, graph::PassStage::kForward, program, grads);
  EXPECT_THAT(Types(program),
              ElementsAre("conv2d", "batch_norm", "relu", "conv2d", "fused_bn_add_activation",
                          "pool2d", "reshape", "fc", "softmax_with_cross_entropy", "mean"));
  EXPECT_EQ(program.ops[4].inputs[5][0], program.ops[2].outputs[0][0]);
  program = Residual();
  EXPECT_EQ(RunPasses(strategy, graph::PassStage::kForward, program, grads)[0].outcome.reason,
            "there is no batch_norm");
}

TEST(Passes, BlockedLayoutsReachFromTheFirstConvolutionToThePool) {
  DistributedStrategy strategy;
  strategy.mutable_build_strategy()->set_fuse_bn_act_ops(true);
  graph::Program program = Block();
  std::vector<graph::ParamGrad> grads;
  RunPasses(strategy, graph::PassStage::kForward, program, grads);
  grads = *graph::AppendBackward(program, 1.0f);
  RunPasses(strategy, graph::PassStage::kUpdate, program, grads);
  int reorders = 0;
  for (const ops::Op& op : program.ops) {
    reorders += op.type == "reorder" ? 1 : 0;
    if (!op.attrs.contains("data_layout")) continue;
    EXPECT_EQ(std::get<std::string>(op.attrs.at("data_layout")), "nChw16c") << op.type;
  }
  // An image of one pixel has the same bytes in both layouts.
  EXPECT_EQ(reorders, 0) << graph::Dump(program);
  EXPECT_EQ(std::get<std::string>(program.ops[0].attrs.at("input_layout")), "NCHW");
  EXPECT_EQ(std::get<std::string>(program.ops[0].attrs.at("output_layout")), "nChw16c");
}

TEST(Passes, BlockedValuesAreReorderedForThoseWhoKnowThemPlain) {
  graph::ProgramBuilder b("plain end", 2);
  const auto x = b.Data("x", DType::kF32, {3, 6, 6});
  const auto y = b.Relu(b.Conv2d(x, {.channels = 32, .kernel = 3}));
  b.SoftmaxLoss(b.Fc(y, 3), b.Data("label", DType::kI64, {1}));
  graph::Program program = *b.Finish();
  DistributedStrategy strategy;
  std::vector<graph::ParamGrad> grads = *graph::AppendBackward(program, 1.0f);
  const auto reports = RunPasses(strategy, graph::PassStage::kUpdate, program, grads);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].name, "use_mkldnn");
  EXPECT_EQ(reports[0].outcome.matched, 2);
  const auto types = Types(program);
  EXPECT_EQ(types[0], "conv2d");
  EXPECT_EQ(types[1], "relu");
  EXPECT_EQ(types[2], "reorder");
  EXPECT_EQ(std::count(types.begin(), types.end(), "reorder"), 2);  // one reorder in each direction
}

}  // namespace
}  // namespace tandem
