// Tests of the pass fused_attention: programs before and after it, the values that they compute,
// the memory that they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "kernels/exec/executor.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/op_device.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "kernels/ops/cpu/fast_half.h"
#include "kernels/ops/elementwise/dropout.h"
#include "proto/strategy.pb.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Options {
  int64_t steps = 70;  // rows of Q, K and V
  double dropout = 0;
  bool causal = true;
  bool packed = true;            // Q, K and V are parts of one product
  bool reused = false;           // a second operator reads the weights
  std::string last_device = "";  // op_device of the second product
};

constexpr int64_t kBatch = 2, kHeads = 3, kDim = 4, kWidth = kHeads * kDim;

std::vector<std::string> QueryKeyValue(graph::ProgramBuilder& b, const Options& o,
                                       const std::string& x) {
  const auto part = [&](int64_t parts) {
    return b.Reshape(b.Fc(x, parts * kWidth), {-1, o.steps, parts, kHeads, kDim});
  };
  if (o.packed) return b.Split(b.Transpose(part(3), {2, 0, 3, 1, 4}), 0, int64_t{3});
  std::vector<std::string> all;
  for (int i = 0; i < 3; ++i) all.push_back(b.Transpose(part(1), {2, 0, 3, 1, 4}));
  return all;
}

// Returns a program with one attention, as the zoo's transformers write it.
graph::Program Attention(const Options& o) {
  graph::ProgramBuilder b("attention", kBatch);
  const auto data = b.Data("x", DType::kF32, {o.steps, kWidth});
  const auto qkv = QueryKeyValue(b, o, b.Reshape(data, {-1, kWidth}));
  const auto scores = b.Layer("matmul", {{qkv[0]}, {qkv[1]}}, {{"trans_y", true}, {"alpha", 0.5}});
  const auto weights = b.Dropout(b.Layer("softmax", {{scores}}, {{"causal", o.causal}}), o.dropout);
  ops::AttrMap attrs;
  if (!o.last_device.empty()) attrs[graph::kOpDevice] = o.last_device;
  const auto heads = b.Layer("matmul", {{weights}, {qkv[2]}}, attrs);
  const auto rows = b.Reshape(b.Transpose(heads, {0, 1, 3, 2, 4}), {-1, kWidth});
  const auto label = b.Reshape(b.Data("label", DType::kI64, {o.steps}), {-1, 1});
  b.SoftmaxLoss(b.Fc(rows, 3), label);
  if (o.reused) b.Layer("relu", {{weights}}, {});
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  return *std::move(program);
}

graph::PassReport Fuse(graph::Program& program, const DistributedStrategy& strategy = {},
                       PlaceKind place = PlaceKind::kCpu) {
  graph::PassPipeline pipeline(strategy, nullptr, place);
  std::vector<graph::ParamGrad> grads;
  const Status status = pipeline.Run(graph::PassStage::kForward, program, grads);
  CHECK(status.ok()) << status;
  for (graph::PassReport& report : pipeline.TakeReports()) {
    if (report.name == "fused_attention") return report;
  }
  graph::PassReport none;
  none.outcome.reason = "not run";
  return none;
}

std::vector<std::string> Types(const graph::Program& program) {
  std::vector<std::string> types;
  for (const ops::Op& op : program.ops) types.push_back(op.type);
  return types;
}

struct Ran {
  std::vector<float> loss;
  std::map<std::string, std::vector<float>> grads;
  size_t bytes = 0;  // arena and scratch memory of the plan
};

// Runs forward and backward once.
Ran RunOnce(graph::Program program, int threads = 2) {
  const auto grads = *graph::AppendBackward(program, 1.0f);
  CpuDevice device;
  exec::Scope scope(device);
  CHECK(exec::Initialize(program, 7, scope).ok());
  exec::PlanOptions options{.threads = threads, .fetch = {program.loss}};
  for (const graph::ParamGrad& grad : grads) options.fetch.push_back(grad.grad);
  auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, options);
  CHECK(plan.ok()) << plan.status();
  auto x = (*plan)->Get("x")->span<float>();
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11) / 5.0f - 1.0f;
  for (auto& label : (*plan)->Get("label")->span<int64_t>()) label = 1;
  if (const Tensor* at = scope.Find(ops::kDropoutPosition)) {
    const ops::DropoutPosition position{3, 4, 2, kBatch};
    std::memcpy(at->data(), &position, sizeof(position));
  }
  const Status status = exec::Executor(**plan).Run(1);
  CHECK(status.ok()) << status;
  const auto values = [&](const std::string& name) {
    const auto span = (*plan)->Get(name)->span<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  Ran ran{values(program.loss), {}, (*plan)->arena_bytes() + (*plan)->scratch_bytes()};
  for (const graph::ParamGrad& grad : grads) ran.grads[grad.param] = values(grad.grad);
  return ran;
}

void ExpectNear(const Ran& fused, const Ran& plain) {
  EXPECT_NEAR(fused.loss[0], plain.loss[0], 1e-5);
  ASSERT_EQ(fused.grads.size(), plain.grads.size());
  for (const auto& [name, want] : plain.grads) {
    float largest = 0;
    for (const float v : want) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(fused.grads.at(name)[i], want[i], 1e-5f * largest + 1e-8f) << name << " " << i;
    }
  }
}

TEST(AttentionPass, BeforeAndAfter) {
  graph::Program program = Attention({.dropout = 0.25});
  EXPECT_THAT(Types(program),
              ElementsAre("reshape", "fc", "reshape", "transpose", "split", "matmul", "softmax",
                          "dropout", "matmul", "transpose", "reshape", "reshape", "fc",
                          "softmax_with_cross_entropy", "mean"));
  EXPECT_EQ(Fuse(program).outcome.matched, 1);
  EXPECT_THAT(Types(program), ElementsAre("reshape", "fc", "reshape", "fused_attention", "reshape",
                                          "reshape", "fc", "softmax_with_cross_entropy", "mean"));
  const ops::Op& op = program.ops[3];
  EXPECT_EQ(op.inputs[0][0], program.ops[2].outputs[0][0]);
  EXPECT_TRUE(op.inputs[1].empty() && op.inputs[2].empty());
  EXPECT_EQ(op.inputs[3][0], ops::kDropoutPosition);
  EXPECT_EQ(std::get<double>(op.attrs.at("alpha")), 0.5);
  EXPECT_EQ(std::get<double>(op.attrs.at("dropout_prob")), 0.25);
  EXPECT_EQ(std::get<bool>(op.attrs.at("causal")), true);
}

TEST(AttentionPass, TheSameValues) {
  for (const bool packed : {true, false}) {
    for (const bool causal : {true, false}) {
      for (const double dropout : {0.0, 0.3}) {
        const graph::Program plain =
            Attention({.dropout = dropout, .causal = causal, .packed = packed});
        graph::Program fused = plain;
        SCOPED_TRACE(testing::Message() << packed << causal << dropout);
        ASSERT_EQ(Fuse(fused).outcome.matched, 1);
        EXPECT_EQ(fused.ops.size(), packed ? plain.ops.size() - (dropout > 0 ? 6 : 5)
                                           : plain.ops.size() - (dropout > 0 ? 3 : 2));
        ExpectNear(RunOnce(fused), RunOnce(plain));
      }
    }
  }
}

// Rows of Q and K need memory, and matrices of weights do not exist.
TEST(AttentionPass, MemoryIsLinearInTheNumberOfRows) {
  const auto bytes = [](bool fuse, int64_t steps) {
    graph::Program program = Attention({.steps = steps});
    if (fuse) Fuse(program);
    return static_cast<double>(RunOnce(program).bytes);
  };
  EXPECT_LT(bytes(true, 1024), 2.1 * bytes(true, 512));
  EXPECT_GT(bytes(false, 1024), 3 * bytes(false, 512));
}

TEST(AttentionPass, LeavesWhatItCannotReplace) {
  graph::Program program = Attention({.reused = true});
  EXPECT_THAT(Fuse(program).outcome.reason, HasSubstr("none of 1 softmax is between the products"));
  EXPECT_THAT(Types(program), Not(Contains("fused_attention")));
  program = Attention({.last_device = "gpu:1"});
  EXPECT_EQ(Fuse(program).outcome.matched, 0);
  program = Attention({});
  EXPECT_THAT(Fuse(program, {}, PlaceKind::kCuda).outcome.reason, HasSubstr("CPU places only"));
  EXPECT_THAT(Types(program), Not(Contains("fused_attention")));
  DistributedStrategy strategy;
  strategy.mutable_build_strategy()->set_fused_attention(false);
  EXPECT_EQ(Fuse(program, strategy).outcome.reason, "not run");
}

TEST(AttentionPass, AnAttentionInTwoSectionsMovesToTheLastOne) {
  DistributedStrategy strategy;
  strategy.set_pipeline(true);
  graph::Program program = Attention({.last_device = "gpu:1"});
  EXPECT_EQ(Fuse(program, strategy).outcome.matched, 1);
  const auto op = std::find_if(program.ops.begin(), program.ops.end(),
                               [](const ops::Op& o) { return o.type == "fused_attention"; });
  ASSERT_NE(op, program.ops.end());
  EXPECT_EQ(graph::SectionOf(*op), 1);
}

TEST(AttentionPass, AmpGivesItHalfInputs) {
  DistributedStrategy strategy;
  strategy.set_amp(true);
  graph::Program program = Attention({});
  const graph::PassReport report = Fuse(program, strategy);
  if (ops::HasFastHalf(DType::kBF16)) {
    EXPECT_THAT(report.outcome.reason, HasSubstr("faster on this CPU"));
    return;
  }
  EXPECT_EQ(report.outcome.matched, 1);
  const auto op = std::find_if(program.ops.begin(), program.ops.end(),
                               [](const ops::Op& o) { return o.type == "fused_attention"; });
  ASSERT_NE(op, program.ops.end());
  EXPECT_EQ(program.FindVar(op->inputs[0][0])->desc.dtype, DType::kBF16);
  EXPECT_EQ(program.FindVar(op->outputs[0][0])->desc.dtype, DType::kBF16);
  EXPECT_EQ(program.FindVar(op->outputs[1][0])->desc.dtype, DType::kF32);
  EXPECT_NEAR(RunOnce(program).loss[0], RunOnce(Attention({})).loss[0], 1e-2);
}

}  // namespace
}  // namespace tandem
