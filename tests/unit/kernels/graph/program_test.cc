// Tests of programs, autodiff, passes, plans and the executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/exec/executor.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const Status& status) { return std::string(status.message()); }

// Returns the program x [batch, 3] -> fc(4) -> relu -> fc(2) -> softmax loss.
graph::Program SmallNet(int64_t batch) {
  graph::ProgramBuilder b("small", batch);
  const auto x = b.Data("x", DType::kF32, {3});
  const auto label = b.Data("label", DType::kI64, {1});
  const auto logits = b.Fc(b.Fc(x, 4, graph::Act::kRelu), 2);
  b.SoftmaxLoss(logits, label);
  b.Accuracy(logits, label);
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  return *std::move(program);
}

class PlanTest : public ::testing::Test {
 protected:
  std::unique_ptr<exec::Plan> MakePlan(const graph::Program& program,
                                       exec::CommHandler* comm = nullptr) {
    exec::PlanOptions options;
    if (!program.loss.empty()) options.fetch = {program.loss};
    auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope_, comm, options);
    CHECK(plan.ok()) << plan.status();
    return *std::move(plan);
  }
  void Feed(const exec::Plan& plan) {
    auto x = plan.Get("x")->span<float>();
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2.0f;
    auto label = plan.Get("label")->span<int64_t>();
    for (size_t i = 0; i < label.size(); ++i) label[i] = x[i * 3] > 0 ? 1 : 0;
  }
  float Loss(const exec::Plan& plan) { return plan.Get(plan.program().loss)->span<float>()[0]; }

  CpuDevice device_;
  exec::Scope scope_{device_};
};

TEST(Program, RefusesBadNamesAndDoubles) {
  graph::Program program;
  EXPECT_TRUE(program.AddVar({.name = "a/b.c@GRAD_0-1"}).ok());
  EXPECT_EQ(program.AddVar({.name = "a/b.c@GRAD_0-1"}).code(), StatusCode::kAlreadyExists);
  for (const char* bad : {"", "a b", "../x", "a\n", "\xff"}) {
    EXPECT_EQ(program.AddVar({.name = bad}).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(program.AddVar({.name = std::string(201, 'a')}).ok());
}

TEST(Program, AppendOpSaysWhatIsWrong) {
  const auto error = [](ops::Op op) {
    graph::Program program;
    CHECK(
        program.AddVar({.name = "x", .kind = graph::VarKind::kData, .desc = {DType::kF32, {2, 3}}})
            .ok());
    return Message(graph::AppendOp(program, std::move(op)));
  };
  EXPECT_THAT(error({.type = "reluu", .inputs = {{"x"}}, .outputs = {{"y"}}}), HasSubstr("relu"));
  EXPECT_THAT(error({.type = "relu", .inputs = {{"z"}}, .outputs = {{"y"}}}),
              HasSubstr("reads \"z\""));
  EXPECT_THAT(error({.type = "relu", .inputs = {}, .outputs = {{"y"}}}), HasSubstr("input slots"));
  EXPECT_THAT(error({.type = "relu", .inputs = {{"x", "x"}}, .outputs = {{"y"}}}),
              HasSubstr("has 2 variables, expected one"));
  EXPECT_THAT(
      error({.type = "scale", .inputs = {{"x"}}, .outputs = {{"y"}}, .attrs = {{"scal", 2.0}}}),
      HasSubstr("no attribute \"scal\""));
  EXPECT_THAT(error({.type = "scale",
                     .inputs = {{"x"}},
                     .outputs = {{"y"}},
                     .attrs = {{"scale", std::string("2")}}}),
              HasSubstr("wrong type"));
  EXPECT_THAT(error({.type = "relu", .inputs = {{"x"}}, .outputs = {{"x y"}}}),
              HasSubstr("invalid variable name"));
}

TEST(Program, KeepsInAMessageWhichStateCheckpointsContain) {
  graph::Program program;
  const auto add = [&program](const char* name, bool saved) {
    return program.AddVar(
        {.name = name, .kind = graph::VarKind::kState, .desc = {DType::kF32, {1}}, .saved = saved});
  };
  ASSERT_TRUE(add("moment", true).ok());
  ASSERT_TRUE(add("position", false).ok());
  pb::ProgramDef def;
  graph::ToProto(program, &def);
  const StatusOr<graph::Program> read = graph::FromProto(def, 1, "net.pbtxt");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->FindVar("moment")->saved);
  EXPECT_FALSE(read->FindVar("position")->saved);
}

TEST(Program, BindBatchInfersAllShapesAgain) {
  graph::Program program = SmallNet(4);
  ASSERT_TRUE(graph::BindBatch(program, 7).ok());
  EXPECT_EQ(program.FindVar("x")->desc.shape, Shape({7, 3}));
  EXPECT_EQ(program.FindVar("fc_1.out")->desc.shape, Shape({7, 2}));
  EXPECT_EQ(program.FindVar("fc_1.w")->desc.shape, Shape({4, 2}));
}

TEST(Autodiff, GivesGradientsInTheOrderTheyAreReady) {
  graph::Program program = SmallNet(4);
  const auto grads = graph::AppendBackward(program, 1.0f);
  ASSERT_TRUE(grads.ok()) << grads.status();
  std::vector<std::string> layers;
  for (const graph::ParamGrad& pair : *grads) {
    layers.push_back(pair.param.substr(0, 4));
    EXPECT_EQ(pair.grad, graph::GradName(pair.param));
  }
  EXPECT_THAT(layers, ElementsAre("fc_1", "fc_1", "fc_0", "fc_0"));
  EXPECT_EQ(program.FindVar("x@GRAD"), nullptr) << "nobody needs the gradient of the data";
  EXPECT_TRUE(graph::Verify(program).ok());
}

TEST(Autodiff, AddsTheGradientsOfAVariableUsedTwice) {
  graph::ProgramBuilder b("twice", 2);
  const auto x = b.Data("x", DType::kF32, {3});
  const auto h = b.Fc(x, 3);
  b.SoftmaxLoss(b.Add(h, b.Relu(h)), b.Data("label", DType::kI64, {1}));
  auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(graph::AppendBackward(*program, 1.0f).ok());
  EXPECT_THAT(graph::Dump(*program), HasSubstr("sum("));
}

TEST(Autodiff, RefusesWithoutLossOrParameters) {
  graph::ProgramBuilder b("no loss", 2);
  b.Relu(b.Data("x", DType::kF32, {3}));
  auto program = b.Finish();
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(graph::AppendBackward(*program, 1.0f).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(PlanTest, TrainsASmallNet) {
  graph::Program program = SmallNet(8);
  const auto grads = graph::AppendBackward(program, 1.0f);
  ASSERT_TRUE(grads.ok());
  ASSERT_TRUE(graph::AppendOptimizer(program, {.type = "momentum"}, *grads).ok());
  ASSERT_TRUE(exec::Initialize(program, 7, scope_).ok());
  auto plan = MakePlan(program);
  plan->Get(graph::kLearningRateVar)->span<float>()[0] = 0.1f;
  Feed(*plan);
  exec::Executor executor(*plan);
  ASSERT_TRUE(executor.Run().ok());
  const float first = Loss(*plan);
  ASSERT_TRUE(executor.Run(60).ok());
  EXPECT_LT(Loss(*plan), 0.5f * first);
  EXPECT_EQ(executor.steps_run(), 61);
}

TEST_F(PlanTest, GradientScaleMultipliesGradients) {
  const auto gradient = [this](float scale) {
    graph::Program program = SmallNet(8);
    CHECK(graph::AppendBackward(program, scale).ok());
    CHECK(exec::Initialize(program, 7, scope_).ok());
    exec::PlanOptions options;
    options.fetch = {"fc_0.w@GRAD"};
    auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope_, nullptr, options);
    CHECK(plan.ok());
    Feed(**plan);
    CHECK(exec::Executor(**plan).Run().ok());
    return (*plan)->Get("fc_0.w@GRAD")->span<float>()[1];
  };
  EXPECT_NE(gradient(1.0f), 0.0f);
  EXPECT_EQ(gradient(0.5f), 0.5f * gradient(1.0f));
}

TEST_F(PlanTest, ErrorsNameTheOperator) {
  graph::Program program = SmallNet(4);
  ASSERT_TRUE(exec::Initialize(program, 7, scope_).ok());
  auto plan = MakePlan(program);
  Feed(*plan);
  plan->Get("label")->span<int64_t>()[2] = 99;
  const Status status = exec::Executor(*plan).Run();
  EXPECT_THAT(Message(status), HasSubstr("softmax_with_cross_entropy"));
  EXPECT_THAT(Message(status), HasSubstr("99"));
}

// An operator may fail on any thread. The error must contain the type of the operator and the line
// of the operator in the user's program.
TEST_F(PlanTest, ErrorsNameTheLineOfTheProgram) {
  graph::Program program = SmallNet(4);
  for (ops::Op& op : program.ops) {
    if (op.type == "softmax_with_cross_entropy") op.source = "model.pbtxt:52";
  }
  ASSERT_TRUE(exec::Initialize(program, 7, scope_).ok());
  for (const int threads : {1, 3}) {
    const auto plan =
        exec::Plan::Make(program, exec::Backend::Cpu(), scope_, nullptr, {.num_threads = threads});
    ASSERT_TRUE(plan.ok()) << plan.status();
    Feed(**plan);
    exec::Executor executor(**plan);
    EXPECT_TRUE(executor.Run().ok());
    (*plan)->Get("label")->span<int64_t>()[2] = 99;
    const Status status = executor.Run();
    EXPECT_THAT(Message(status), HasSubstr("softmax_with_cross_entropy (model.pbtxt:52): "))
        << threads;
    EXPECT_THAT(Message(status), HasSubstr("99"));
    Feed(**plan);
    EXPECT_TRUE(executor.Run().ok()) << "the next run is whole";
  }
}

TEST_F(PlanTest, RefusesWhenEveryImplementationIsOff) {
  graph::Program program = SmallNet(4);
  exec::PlanOptions options;
  for (const ops::OpDef* def : ops::AllOps()) {
    for (const ops::KernelImpl& impl : def->cpu_kernels())
      options.disable_impls.push_back(impl.name);
  }
  const auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope_, nullptr, options);
  EXPECT_EQ(plan.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(Message(plan.status()), HasSubstr("no kernel for"));
  EXPECT_THAT(Message(plan.status()), HasSubstr("[TD5003]"));
  EXPECT_THAT(Message(plan.status()), HasSubstr("on cpu"));
}

TEST_F(PlanTest, ScopeRefusesAnotherShape) {
  ASSERT_TRUE(scope_.Declare("w", {DType::kF32, {2}}).ok());
  EXPECT_THAT(Message(scope_.Declare("w", {DType::kF32, {3}}).status()), HasSubstr("f32[3]"));
}

// The initial values of a variable do not depend on its division into slices.
TEST(Scope, InitialValuesOfSlicesAreThoseOfTheWhole) {
  for (const auto kind : {graph::Init::kUniform, graph::Init::kNormal, graph::Init::kXavierUniform,
                          graph::Init::kMsraNormal}) {
    std::vector<float> whole(101), parts(101);
    const graph::Init init = {kind, -1.0f, 2.0f};
    exec::FillInitial("w", init, {101}, 3, 0, whole);
    exec::FillInitial("w", init, {101}, 3, 0, std::span(parts).subspan(0, 33));
    exec::FillInitial("w", init, {101}, 3, 33, std::span(parts).subspan(33));
    EXPECT_EQ(whole, parts);
    EXPECT_EQ(std::set<float>(whole.begin(), whole.end()).size(), 101u);
  }
}

// ---- Communication ------------------------------------------------------------------------------

// A communication handler that doubles the data at once and records the order of the starts. If
// `complete` is false, no communication ends. If `fail` is an error, each communication fails.
class FakeComm final : public exec::CommHandler {
 public:
  StatusOr<int> Register(const exec::CommNode& node) override {
    nodes.push_back(node);
    return static_cast<int>(nodes.size()) - 1;
  }
  void Start(int index, int64_t, exec::CommDone* done) override {
    started.push_back(index);
    if (!fail.ok()) return done->Complete(fail);
    for (const exec::CommTensor& t : nodes[static_cast<size_t>(index)].out) {
      auto* values = static_cast<float*>(t.data);
      for (int64_t i = 0; i < t.desc.shape.numel(); ++i) values[i] *= 2.0f;
    }
    if (complete) done->Complete(OkStatus());
  }
  Duration timeout() const override { return std::chrono::milliseconds(50); }

  std::vector<exec::CommNode> nodes;
  std::vector<int> started;
  Status fail;
  bool complete = true;
};

struct TrainedNet {
  graph::Program program;
  std::vector<graph::ParamGrad> grads;
};
TrainedNet Distributed(const graph::GroupRule& rule) {
  TrainedNet net{SmallNet(8), {}};
  net.grads = *graph::AppendBackward(net.program, 0.5f);
  CHECK(graph::InsertAllReduce(net.program, graph::GroupGradients(net.program, net.grads, rule))
            .ok());
  CHECK(graph::AppendOptimizer(net.program, {}, net.grads).ok());
  return net;
}

TEST_F(PlanTest, SumOverTwoEqualRanksIsTheSameAsOne) {
  const auto train = [this](bool distributed) {
    exec::Scope scope(device_);
    FakeComm comm;
    graph::Program program = SmallNet(8);
    const auto grads = *graph::AppendBackward(program, distributed ? 0.5f : 1.0f);
    if (distributed)
      CHECK(graph::InsertAllReduce(program, graph::GroupGradients(program, grads, {})).ok());
    CHECK(graph::AppendOptimizer(program, {.type = "adam"}, grads).ok());
    CHECK(exec::Initialize(program, 7, scope).ok());
    auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, &comm, {});
    CHECK(plan.ok()) << plan.status();
    Feed(**plan);
    scope.Find(graph::kLearningRateVar)->span<float>()[0] = 0.1f;
    CHECK(exec::Executor(**plan).Run(5).ok());
    EXPECT_EQ(comm.started.size(), distributed ? 5u : 0u);
    const auto w = scope.Find("fc_0.w")->span<float>();
    return std::vector<float>(w.begin(), w.end());
  };
  EXPECT_EQ(train(true), train(false));
}

TEST_F(PlanTest, OneCollectivePerLayerStartsBehindItsGradients) {
  TrainedNet net = Distributed({.group_mb = -1});
  ASSERT_TRUE(exec::Initialize(net.program, 7, scope_).ok());
  FakeComm comm;
  auto plan = MakePlan(net.program, &comm);
  ASSERT_EQ(comm.nodes.size(), 2u);
  EXPECT_EQ(comm.nodes[0].in[0].var.substr(0, 4), "fc_1");
  // The plan must wait for the first communication only after it has computed the gradients of the
  // second layer.
  std::vector<std::string> order;
  for (const exec::PlanStep& step : plan->steps()) {
    if (step.comm_start >= 0) order.push_back("start");
    if (step.comm_wait >= 0) order.push_back("wait");
    if (step.run && net.program.ops[static_cast<size_t>(step.op)].type == "fc_grad") {
      order.push_back("fc_grad");
    }
  }
  EXPECT_THAT(order, ElementsAre("fc_grad", "start", "fc_grad", "start", "wait", "wait"));
}

TEST_F(PlanTest, CommunicationFailsOrIsLate) {
  TrainedNet net = Distributed({});
  ASSERT_TRUE(exec::Initialize(net.program, 7, scope_).ok());
  FakeComm comm;
  auto plan = MakePlan(net.program, &comm);
  Feed(*plan);
  comm.fail = Unavailable("rank 1 is gone");
  EXPECT_THAT(Message(exec::Executor(*plan).Run()), HasSubstr("rank 1 is gone"));
  comm.fail = OkStatus();
  comm.complete = false;
  EXPECT_EQ(exec::Executor(*plan).Run().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(PlanTest, CommunicationWithoutHandlerIsRefused) {
  TrainedNet net = Distributed({});
  EXPECT_EQ(
      exec::Plan::Make(net.program, exec::Backend::Cpu(), scope_, nullptr, {}).status().code(),
      StatusCode::kFailedPrecondition);
}

TEST(PushPull, SendsAllGradientsAndReceivesAllParameters) {
  graph::Program program = SmallNet(8);
  const auto grads = *graph::AppendBackward(program, 1.0f);
  ASSERT_TRUE(graph::AppendPushPull(program, grads).ok());
  const ops::Op& last = program.ops.back();
  EXPECT_EQ(last.type, "push_pull");
  EXPECT_THAT(last.inputs[0],
              ElementsAre("fc_1.w@GRAD", "fc_1.b@GRAD", "fc_0.w@GRAD", "fc_0.b@GRAD"));
  EXPECT_THAT(last.outputs[0], ElementsAre("fc_1.w", "fc_1.b", "fc_0.w", "fc_0.b"));
}

// ---- Grouping of gradients ----------------------------------------------------------------------

TEST(GroupGradients, ClosesBehindTheLayerThatFillsIt) {
  // A program with layers of 3, 2, 1 and 4 KiB of weights. Each layer also has a small bias.
  graph::Program program;
  std::vector<graph::ParamGrad> grads;
  for (const auto& [layer, floats] : std::vector<std::pair<std::string, int64_t>>{
           {"a", 768}, {"b", 512}, {"c", 256}, {"d", 1024}}) {
    for (const std::string part : {".w", ".b"}) {
      const std::string name = layer + part;
      const Shape shape = {part == ".w" ? floats : 1};
      CHECK(program.AddVar({.name = name + "@GRAD", .desc = {DType::kF32, shape}}).ok());
      grads.push_back({name, name + "@GRAD"});
    }
  }
  const auto sizes = [&](const graph::GroupRule& rule) {
    std::vector<size_t> result;
    for (const auto& group : graph::GroupGradients(program, grads, rule))
      result.push_back(group.size());
    return result;
  };
  constexpr double kKiB = 1.0 / 1024;
  EXPECT_THAT(sizes({.group_mb = 32}), ElementsAre(8));
  EXPECT_THAT(sizes({.group_mb = -1}), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(sizes({.group_mb = 5 * kKiB}), ElementsAre(4, 4));
  EXPECT_THAT(sizes({.group_mb = 32, .gradients_max = 3}), ElementsAre(4, 4));
  EXPECT_THAT(sizes({.group_mb = 32, .gradients_max = 4}), ElementsAre(6, 2));
  // The last group is split in two. The second part holds as many layers as fit into the limit
  // `last_mb`, but at least one.
  EXPECT_THAT(sizes({.group_mb = 32, .last_mb = 6 * kKiB}), ElementsAre(4, 4));
  EXPECT_THAT(sizes({.group_mb = 32, .last_mb = 5 * kKiB}), ElementsAre(6, 2));
  EXPECT_THAT(sizes({.group_mb = 32, .last_mb = 1 * kKiB}), ElementsAre(6, 2));
  EXPECT_THAT(sizes({.group_mb = 5 * kKiB, .last_mb = 1 * kKiB}), ElementsAre(4, 2, 2));
  EXPECT_THAT(sizes({.group_mb = 32, .last_mb = 11 * kKiB}), ElementsAre(8)) << "all fit";
  EXPECT_THAT(sizes({.group_mb = -1, .last_mb = 11 * kKiB}), ElementsAre(2, 2, 2, 2));
}

}  // namespace
}  // namespace tandem
