// Tests the passes of amp: compares programs before and after them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "proto/strategy.pb.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

DistributedStrategy Amp() {
  DistributedStrategy strategy;
  strategy.set_amp(true);
  strategy.mutable_runtime_flags()->set_use_mkldnn(false);
  return strategy;
}

Status RunPasses(const DistributedStrategy& strategy, graph::Program& program,
                 PlaceKind place = PlaceKind::kCpu,
                 std::vector<graph::PassReport>* reports = nullptr) {
  graph::PassPipeline pipeline(strategy, nullptr, place);
  std::vector<graph::ParamGrad> grads;
  TD_RETURN_IF_ERROR(pipeline.Run(graph::PassStage::kForward, program, grads));
  TD_ASSIGN_OR_RETURN(grads, graph::AppendBackward(program, 0.5f));
  TD_RETURN_IF_ERROR(pipeline.Run(graph::PassStage::kBackward, program, grads));
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, {"sgd", {}}, grads));
  const Status status = pipeline.Run(graph::PassStage::kUpdate, program, grads);
  if (reports != nullptr) *reports = pipeline.TakeReports();
  return status;
}

// Returns a program in which two operators read x: fc, and the addition after fc's relu.
graph::Program Small() {
  graph::ProgramBuilder b("small", 4);
  const auto x = b.Data("x", DType::kF32, {3});
  b.SoftmaxLoss(b.Fc(b.Add(b.Fc(x, 3, graph::Act::kRelu), x), 2),
                b.Data("label", DType::kI64, {1}));
  return *b.Finish();
}

// Returns one line per operator: its type, the types of its inputs, and "if" for a condition.
std::string TypesOf(const graph::Program& program) {
  std::string text;
  for (const ops::Op& op : program.ops) {
    text += op.type;
    for (const auto& slot : op.inputs) {
      for (const auto& name : slot) {
        text += std::string(" ") + Name(program.FindVar(name)->desc.dtype);
      }
    }
    text += op.run_if.empty() ? "\n" : " if\n";
  }
  return text;
}

TEST(AmpPass, BeforeAndAfter) {
  graph::Program program = Small();
  const Status status = RunPasses(Amp(), program);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(TypesOf(program), R"(cast f32
cast f32
fc bf16 bf16 f32
relu bf16
elementwise_add bf16 bf16
cast f32
fc bf16 bf16 f32
cast bf16
softmax_with_cross_entropy f32 i64
mean f32
fill_constant
elementwise_mul f32 f32
mean_grad f32 f32
softmax_with_cross_entropy_grad f32 i64 f32
cast_grad bf16 f32
fc_grad bf16 bf16 bf16
elementwise_add_grad bf16 bf16 bf16
relu_grad bf16 bf16
fc_grad bf16 bf16 bf16
cast bf16
cast bf16
check_finite_and_unscale f32 f32 f32 f32 f32
update_loss_scaling f32 f32 f32 f32
sgd f32 f32 f32 if
sgd f32 f32 f32 if
sgd f32 f32 f32 if
sgd f32 f32 f32 if
)");
  EXPECT_EQ(program.ops[12].inputs[1][0], program.ops[11].outputs[0][0]) << "the scaled gradient";
}

TEST(AmpPass, RefusesWhatHasNo16BitForm) {
  DistributedStrategy strategy = Amp();
  strategy.mutable_amp_configs()->add_custom_white_list("softmax_with_cross_entropy");
  graph::Program program = Small();
  const std::string message(RunPasses(strategy, program).message());
  EXPECT_THAT(message, HasSubstr("custom_white_list"));
  EXPECT_THAT(message, HasSubstr("softmax_with_cross_entropy has no 16-bit form"));
  strategy.mutable_amp_configs()->clear_custom_white_list();
  strategy.mutable_amp_configs()->add_custom_black_list("conv3d");
  program = Small();
  EXPECT_EQ(RunPasses(strategy, program).code(), StatusCode::kNotFound);
  strategy.mutable_amp_configs()->clear_custom_black_list();
  strategy.mutable_amp_configs()->add_custom_black_varnames("y");
  program = Small();
  EXPECT_THAT(std::string(RunPasses(strategy, program).message()), HasSubstr("no variable \"y\""));
}

// sample_image writes directly in the type to which its only reader casts. The cast remains if
// another operator reads the output of sample_image as f32.
TEST(AmpPass, SamplesAreMadeWith16Bits) {
  for (const bool read_twice : {false, true}) {
    graph::ProgramBuilder b("samples", 4);
    const auto image = b.Layer("sample_image",
                               {{b.Data("pixels", DType::kU8, {75})},
                                {b.Data("sizes", DType::kI64, {3})},
                                {b.Data("taps", DType::kI32, {2, 5})}},
                               {});
    auto out = b.Conv2d(image, {.channels = 3, .kernel = 1});
    if (read_twice) out = b.Add(out, b.Layer("softmax", {{image}}, {}));
    b.SoftmaxLoss(b.Fc(out, 2), b.Data("label", DType::kI64, {1}));
    graph::Program program = *b.Finish();
    const Status status = RunPasses(Amp(), program);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(program.ops[0].type, "sample_image");
    const DType made = read_twice ? DType::kF32 : DType::kBF16;
    EXPECT_EQ(program.FindVar(program.ops[0].outputs[0][0])->desc.dtype, made);
    const auto conv = std::find_if(program.ops.begin(), program.ops.end(),
                                   [](const ops::Op& op) { return op.type == "conv2d"; });
    EXPECT_EQ(conv->inputs[0] == program.ops[0].outputs[0], !read_twice);
    EXPECT_TRUE(graph::Verify(program).ok());
  }
}

// The loss and the metrics of a program are f32, whichever operator computes them.
TEST(AmpPass, MetricsStayF32) {
  graph::Program program = Small();
  program.metrics = {program.ops[1].outputs[0][0]};
  ASSERT_TRUE(RunPasses(Amp(), program).ok());
  EXPECT_EQ(program.FindVar(program.metrics[0])->desc.dtype, DType::kF32);
}

// If tables are on pservers, the step pushes the rows only after the check for overflows.
TEST(AmpPass, RowsAreUnscaledBeforeTheyArePushed) {
  graph::ProgramBuilder b("rows", 4);
  const auto ids = b.Data("ids", DType::kI64, {2});
  const auto rows = b.Embedding(ids, {.rows = 9, .dim = 3, .sparse = true});
  b.SoftmaxLoss(b.Fc(b.Reshape(rows, {0, -1}), 2), b.Data("label", DType::kI64, {1}));
  graph::Program program = *b.Finish();
  const DistributedStrategy strategy = Amp();
  graph::PassPipeline pipeline(strategy, nullptr);
  std::vector<graph::ParamGrad> grads;
  ASSERT_TRUE(pipeline.Run(graph::PassStage::kForward, program, grads).ok());
  grads = *graph::AppendBackward(program, 1.0f);
  const std::vector<graph::ParamGrad> tables = graph::TableGradients(program, grads);
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_TRUE(graph::InsertTables(program, tables).ok());
  std::vector<graph::ParamGrad> dense;
  for (const graph::ParamGrad& pair : grads) {
    if (pair.rows.empty())
      dense.push_back(*graph::WidenGradient(program, pair, ops::OpRole::kBackward));
  }
  ASSERT_TRUE(graph::AppendPushPull(program, dense).ok());
  const Status status = pipeline.Run(graph::PassStage::kUpdate, program, grads);
  ASSERT_TRUE(status.ok()) << status;
  const auto at = [&program](const char* type) {
    return std::find_if(program.ops.begin(), program.ops.end(),
                        [type](const ops::Op& op) { return op.type == type; });
  };
  const auto check = at("check_finite_and_unscale");
  ASSERT_NE(check, program.ops.end());
  EXPECT_EQ(check->inputs[1].size(), 3u) << "the rows, a weight, a bias";
  EXPECT_LT(check, at("push_rows"));
  EXPECT_LT(at("push_rows"), at("push_pull"));
}

// Returns the layouts of the operators in a 16-bit network with one convolution.
std::vector<std::string> LayoutsOf(const graph::ConvArgs& conv) {
  graph::ProgramBuilder b("images", 2);
  std::string x = b.Data("x", DType::kF32, {3, 8, 8});
  x = b.BatchNorm(b.Conv2d(x, conv), graph::Act::kRelu);
  x = b.Pool2d(x, {.global = true});
  b.SoftmaxLoss(b.Fc(x, 2), b.Data("label", DType::kI64, {1}));
  graph::Program program = *b.Finish();
  DistributedStrategy strategy = Amp();
  strategy.mutable_runtime_flags()->set_use_mkldnn(true);
  strategy.mutable_build_strategy()->set_fuse_bn_act_ops(true);
  const Status status = RunPasses(strategy, program);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> layouts;
  for (const ops::Op& op : program.ops) {
    EXPECT_NE(op.type, "reorder");
    for (const char* attr : {"data_layout", "output_layout"}) {
      if (op.attrs.contains(attr)) layouts.push_back(std::get<std::string>(op.attrs.at(attr)));
    }
  }
  return layouts;
}

// On a CPU, 16-bit images have the layout with channels last, from the first convolution to the
// pool operator.
TEST(AmpPass, ChannelsLast) {
  const std::vector<std::string> six(6, "NHWC");
  EXPECT_EQ(LayoutsOf({.channels = 40, .kernel = 3, .padding = 1}), six);
  EXPECT_EQ(LayoutsOf({.channels = 20, .kernel = 3, .stride = 2, .padding = 1}), six)
      << "own kernels have stride 1";
}

// With few channels, the kernel for the original layout is faster, so the pass keeps this layout.
TEST(AmpPass, FewChannelsStayPlain) {
  const std::vector<std::string> layouts = LayoutsOf({.channels = 20, .kernel = 3, .padding = 1});
  EXPECT_EQ(std::count(layouts.begin(), layouts.end(), "NHWC"), 0);
}

// Returns the network x [2,3,8,8] -> conv -> batch_norm -> relu -> conv of `groups` -> batch_norm
// -> + -> relu -> pool.
graph::Program Images(int64_t groups) {
  graph::ProgramBuilder b("images", 2);
  const auto conv = [&b](const std::string& x, int64_t of) {
    return b.Conv2d(x, {.channels = 4, .kernel = 3, .padding = 1, .bias = false, .groups = of});
  };
  const auto x = b.BatchNorm(conv(b.Data("x", DType::kF32, {3, 8, 8}), 1), graph::Act::kRelu);
  const auto y = b.Relu(b.Add(b.BatchNorm(conv(x, groups)), x));
  b.SoftmaxLoss(b.Fc(b.Pool2d(y, {.max = false, .global = true}), 2),
                b.Data("label", DType::kI64, {1}));
  return *b.Finish();
}

struct OnDevice {
  graph::Program program;
  graph::PassReport report;
  std::vector<std::string> reordered;
  std::map<std::string, std::set<std::string>> layouts;  // the layouts of each operator type
};

OnDevice LaidOut(const DistributedStrategy& strategy, PlaceKind place, int64_t groups) {
  OnDevice out{.program = Images(groups), .report = {}, .reordered = {}, .layouts = {}};
  std::vector<graph::PassReport> reports;
  const Status status = RunPasses(strategy, out.program, place, &reports);
  EXPECT_TRUE(status.ok()) << status;
  for (const graph::PassReport& report : reports) {
    if (report.name == "amp.channels_last") out.report = report;
  }
  for (const ops::Op& op : out.program.ops) {
    if (op.type == "reorder") out.reordered.push_back(op.inputs[0][0]);
    for (const ops::AttrDef& attr : ops::FindOp(op.type)->attrs) {
      if (!std::string_view(attr.name).ends_with("_layout")) continue;
      const auto set = op.attrs.find(attr.name);
      out.layouts[op.type].insert(set == op.attrs.end() ? "NCHW"
                                                        : std::get<std::string>(set->second));
    }
  }
  return out;
}

// On a device, only the input of the network is transposed, for any number of groups.
TEST(AmpPass, OnADeviceImagesTurnOnce) {
  for (const int64_t groups : {1, 4}) {
    const OnDevice out = LaidOut(Amp(), PlaceKind::kCuda, groups);
    EXPECT_EQ(out.report.outcome.matched, 4) << "two convolutions and their gradients";
    EXPECT_EQ(out.report.operators_after, out.report.operators_before + 1);
    ASSERT_EQ(out.reordered.size(), 1u) << graph::Dump(out.program);
    EXPECT_THAT(out.reordered[0], HasSubstr("x"));
    for (const auto& [type, layouts] : out.layouts) {
      EXPECT_EQ(layouts, std::set<std::string>{"NHWC"}) << type;
    }
    EXPECT_EQ(out.layouts.size(), 8u) << "convolutions, two kinds of norms, pool, and gradients";
  }
}

// On a device, a convolution and the following relu are one operator.
TEST(AmpPass, OnADeviceReluIsPartOfAConvolution) {
  graph::ProgramBuilder b("relu", 2);
  const graph::ConvArgs conv = {.channels = 4, .kernel = 3, .padding = 1, .act = graph::Act::kRelu};
  const auto x = b.Conv2d(b.Conv2d(b.Data("x", DType::kF32, {3, 8, 8}), conv), conv);
  b.SoftmaxLoss(b.Fc(x, 2), b.Data("label", DType::kI64, {1}));
  const graph::Program before = *b.Finish();
  DistributedStrategy strategy = Amp();
  strategy.mutable_build_strategy()->set_fuse_elewise_add_act_ops(true);
  for (const PlaceKind place : {PlaceKind::kCpu, PlaceKind::kCuda}) {
    graph::Program program = before;
    std::vector<graph::PassReport> reports;
    ASSERT_TRUE(RunPasses(strategy, program, place, &reports).ok());
    std::map<std::string, int> count;
    for (const ops::Op& op : program.ops) ++count[op.type];
    const bool device = place == PlaceKind::kCuda;
    EXPECT_EQ(count["conv2d_relu"], device ? 2 : 0);
    EXPECT_EQ(count["relu"], device ? 0 : 2);
    EXPECT_EQ(count["relu_grad"], 2);
    EXPECT_EQ(count["conv2d_grad"], 2);
    EXPECT_THAT(
        graph::ReportText(reports),
        HasSubstr(device ? "pass fuse_elewise_add_act_ops.conv: 2 places"
                         : "fuse_elewise_add_act_ops.conv: not applied: on CPU relu works"));
  }
}

// A convolution is not merged with its relu if another operator also reads the output of the
// convolution.
TEST(AmpPass, AConvolutionThatOthersReadStays) {
  graph::ProgramBuilder b("both", 2);
  const auto x = b.Conv2d(b.Data("x", DType::kF32, {3, 8, 8}), {.channels = 4, .kernel = 3});
  b.SoftmaxLoss(b.Fc(b.Layer("elementwise_mul", {{b.Relu(x)}, {x}}, {}), 2),
                b.Data("label", DType::kI64, {1}));
  graph::Program program = *b.Finish();
  DistributedStrategy strategy = Amp();
  strategy.mutable_build_strategy()->set_fuse_elewise_add_act_ops(true);
  std::vector<graph::PassReport> reports;
  ASSERT_TRUE(RunPasses(strategy, program, PlaceKind::kCuda, &reports).ok());
  EXPECT_THAT(
      graph::ReportText(reports),
      HasSubstr(
          "fuse_elewise_add_act_ops.conv: not applied: none of 1 conv2d is followed by a relu"));
}

TEST(AmpPass, WhereChannelsStayIsSaid) {
  EXPECT_EQ(LaidOut(Amp(), PlaceKind::kCpu, 1).report.outcome.reason,
            "on CPU use_mkldnn determines the layouts");
  graph::Program program = Small();
  std::vector<graph::PassReport> reports;
  ASSERT_TRUE(RunPasses(Amp(), program, PlaceKind::kCuda, &reports).ok());
  EXPECT_THAT(graph::ReportText(reports),
              HasSubstr("pass amp.channels_last: not applied: no convolution has 16-bit images"));
}

}  // namespace
}  // namespace tandem
