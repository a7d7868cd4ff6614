// Checks the gradient of every differentiable operator. Autodiff adds the gradient operators, and
// every implementation computes the gradient. The gradient must equal central differences of the
// reference loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_join.h"
#include "common/base/rng.h"
#include "kernels/exec/executor.h"
#include "kernels/exec/plan.h"
#include "kernels/graph/autodiff.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

constexpr uint64_t kSeed = 21;
constexpr double kStep = 1e-5;
// Maximum number of elements of an input that the test varies. In larger inputs the test varies a
// sample of this size.
constexpr size_t kElementsMax = 12;
constexpr double kFlopsMax = 3e5;

// loss = mean(out * weight). The weights differ, so that each element of the output affects the
// loss in a different way.
constexpr const char* kWeight = "weight";
constexpr const char* kLoss = "loss";

bool Differentiated(const OpCase& c, size_t slot) {
  return std::count(c.grad_slots.begin(), c.grad_slots.end(), slot) > 0;
}

// Returns the names of the inputs whose gradients are checked.
std::vector<std::string> Wanted(const OpCase& c, const ops::Op& op) {
  std::vector<std::string> names;
  for (const size_t slot : c.grad_slots) {
    names.insert(names.end(), op.inputs[slot].begin(), op.inputs[slot].end());
  }
  return names;
}

size_t PositionOf(const std::string& in) { return std::stoul(in.substr(2)); }

StatusOr<graph::Program> MakeProgram(const OpCase& c, const std::vector<Value>& inputs,
                                     std::vector<graph::ParamGrad>& grads) {
  graph::Program program;
  program.name = "gradient";
  const ops::Op op = MakeOp(c);
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    const graph::VarKind kind =
        Differentiated(c, slot) ? graph::VarKind::kParam : graph::VarKind::kData;
    for (const std::string& name : op.inputs[slot]) {
      TD_RETURN_IF_ERROR(
          program.AddVar({.name = name, .kind = kind, .desc = inputs[PositionOf(name)].desc}));
    }
  }
  TD_RETURN_IF_ERROR(graph::AppendOp(program, op));
  const std::string out = op.outputs[c.grad_output][0];
  TD_RETURN_IF_ERROR(program.AddVar(
      {.name = kWeight, .kind = graph::VarKind::kData, .desc = program.FindVar(out)->desc}));
  TD_RETURN_IF_ERROR(graph::AppendOp(
      program,
      {.type = "elementwise_mul", .inputs = {{out}, {kWeight}}, .outputs = {{"weighted"}}}));
  TD_RETURN_IF_ERROR(
      graph::AppendOp(program, {.type = "mean", .inputs = {{"weighted"}}, .outputs = {{kLoss}}}));
  program.loss = kLoss;
  TD_ASSIGN_OR_RETURN(grads, graph::AppendBackward(program, 1.0f));
  for (graph::ParamGrad& pair : grads) {
    TD_ASSIGN_OR_RETURN(pair, graph::Densify(program, pair));
  }
  return program;
}

// Computes the loss in double precision with the reference loops.
double LossOf(const OpCase& c, const std::vector<Value>& inputs, const Value& weight) {
  const Value out = RunOracle(c, inputs)[c.grad_output];
  double total = 0;
  for (size_t i = 0; i < out.v.size(); ++i) total += out.v[i] * weight.v[i];
  return total / static_cast<double>(out.v.size());
}

std::vector<size_t> Sample(size_t n) {
  std::vector<size_t> elements;
  if (n <= kElementsMax) {
    for (size_t i = 0; i < n; ++i) elements.push_back(i);
    return elements;
  }
  elements = {0, n - 1};
  const uint64_t key = StreamKey(kSeed, "sample");
  while (elements.size() < kElementsMax) {
    elements.push_back(
        static_cast<size_t>(UniformAt(key, elements.size()) * static_cast<float>(n)));
  }
  return elements;
}

struct Difference {
  std::string input;
  size_t element;
  double gradient;
};

std::vector<Difference> Differences(const OpCase& c, std::vector<Value> inputs,
                                    const Value& weight) {
  std::vector<Difference> all;
  for (const std::string& name : Wanted(c, MakeOp(c))) {
    auto& v = inputs[PositionOf(name)].v;
    for (const size_t i : Sample(v.size())) {
      const double at = v[i];
      v[i] = at + kStep;
      const double above = LossOf(c, inputs, weight);
      v[i] = at - kStep;
      const double below = LossOf(c, inputs, weight);
      v[i] = at;
      all.push_back({name, i, (above - below) / (2 * kStep)});
    }
  }
  return all;
}

class GradientRun {
 public:
  GradientRun(const OpCase& c, const graph::Program& program,
              const std::vector<graph::ParamGrad>& grads)
      : op_(MakeOp(c)), program_(program), grads_(grads) {}

  // Runs the program without the implementations in `disable`. UNIMPLEMENTED: the other
  // implementations do not support the row.
  Status Run(const std::vector<Value>& inputs, const Value& weight,
             const std::vector<std::string>& disable);
  Value Gradient(const std::string& input) const {
    for (const graph::ParamGrad& grad : grads_) {
      if (grad.param != input) continue;
      const auto tensor = plan_->Get(grad.grad);
      CHECK(tensor.ok()) << tensor.status();
      return Load(tensor->desc(), tensor->data());
    }
    ADD_FAILURE() << "no gradient of " << input;
    return {};
  }
  const std::vector<std::string>& choices() const { return plan_->choices(); }

 private:
  const ops::Op op_;
  const graph::Program& program_;
  const std::vector<graph::ParamGrad>& grads_;
  CpuDevice device_;
  exec::Scope scope_{device_};
  std::unique_ptr<exec::Plan> plan_;
};

Status GradientRun::Run(const std::vector<Value>& inputs, const Value& weight,
                        const std::vector<std::string>& disable) {
  exec::PlanOptions options{.threads = 1, .fetch = {}, .disable_impls = disable};
  for (const graph::ParamGrad& grad : grads_) options.fetch.push_back(grad.grad);
  TD_ASSIGN_OR_RETURN(plan_,
                      exec::Plan::Make(program_, exec::Backend::Cpu(), scope_, nullptr, options));
  for (const auto& slot : op_.inputs) {
    for (const std::string& name : slot) {
      TD_ASSIGN_OR_RETURN(const Tensor tensor, plan_->Get(name));
      Store(inputs[PositionOf(name)], tensor.data());
    }
  }
  TD_ASSIGN_OR_RETURN(const Tensor tensor, plan_->Get(kWeight));
  Store(weight, tensor.data());
  return exec::Executor(*plan_).Run();
}

// Returns lists of implementations to disable. Each list adds the next implementation of an
// operator, starting with the first one. Disabling makes the operator use its next implementation,
// so the test covers all implementations.
std::vector<std::vector<std::string>> Choices(const graph::Program& program) {
  std::vector<std::vector<std::string>> choices = {{}};
  for (const ops::Op& op : program.ops) {
    const auto& impls = ops::FindOp(op.type)->cpu_kernels();
    std::vector<std::string> off;
    for (size_t i = 0; i + 1 < impls.size(); ++i) {
      off.emplace_back(impls[i].name);
      choices.push_back(off);
    }
  }
  std::sort(choices.begin(), choices.end());
  choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
  return choices;
}

void CheckGradients(const OpCase& c) {
  SCOPED_TRACE(CaseName(c));
  const auto inputs = DrawInputs(c, kSeed);
  std::vector<graph::ParamGrad> grads;
  const auto program = MakeProgram(c, inputs, grads);
  ASSERT_TRUE(program.ok()) << program.status();
  const OpCase weights = {.op = "scale", .inputs = {{F32(program->FindVar(kWeight)->desc.shape)}}};
  const Value weight = DrawInputs(weights, kSeed)[0];
  const auto differences = Differences(c, inputs, weight);
  for (const auto& disable : Choices(*program)) {
    GradientRun run(c, *program, grads);
    const Status status = run.Run(inputs, weight, disable);
    if (status.code() == StatusCode::kUnimplemented && !disable.empty()) continue;
    ASSERT_TRUE(status.ok()) << status;
    std::map<std::string, Value> gradients;
    for (const Difference& d : differences) {
      if (!gradients.contains(d.input)) gradients[d.input] = run.Gradient(d.input);
      const double got = gradients[d.input].v.at(d.element);
      double largest = 0;
      for (const double g : gradients[d.input].v) largest = std::max(largest, std::abs(g));
      EXPECT_NEAR(got, d.gradient, 1e-5 * largest + 1e-5 * std::abs(d.gradient) + 1e-8)
          << "d(loss)/d(" << d.input << "[" << d.element << "]) with "
          << absl::StrJoin(run.choices(), ", ");
    }
  }
}

void CheckFamily(const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    const bool empty = std::any_of(c.inputs.begin(), c.inputs.end(), [](const auto& slot) {
      return !slot.empty() && slot[0].desc.shape.numel() == 0;
    });
    if (c.grad_slots.empty() || empty) continue;
    // Skips large rows, because each difference runs the reference loops twice. kernels_test.cc
    // tests large rows.
    if (c.bench || c.flops > kFlopsMax) continue;
    CheckGradients(c);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Gradient, Linear) { CheckFamily(LinearCases()); }
TEST(Gradient, Image) { CheckFamily(ImageCases()); }
TEST(Gradient, Norm) { CheckFamily(NormCases()); }
TEST(Gradient, Elementwise) { CheckFamily(ElementwiseCases()); }
TEST(Gradient, Dense) { CheckFamily(DenseCases()); }
TEST(Gradient, Attention) { CheckFamily(AttentionCases()); }
TEST(Gradient, Layout) { CheckFamily(LayoutCases()); }
TEST(Gradient, Loss) { CheckFamily(LossCases()); }
TEST(Gradient, Embedding) { CheckFamily(EmbeddingCases()); }
TEST(Gradient, Click) { CheckFamily(ClickCases()); }
TEST(Gradient, Update) { CheckFamily(UpdateCases()); }
TEST(Gradient, RandomShapes) { CheckFamily(RandomCases(9, 160)); }

TEST(Gradient, EveryDifferentiableOperatorIsChecked) {
  std::set<std::string> checked;
  for (const OpCase& c : AllCases()) {
    if (!c.grad_slots.empty() && !c.bench) checked.insert(c.op);
  }
  for (const ops::OpDef* def : ops::AllOps()) {
    EXPECT_EQ(checked.contains(def->type), def->grad != nullptr) << def->type;
  }
}

}  // namespace
}  // namespace tandem::optest
