// Tests optimizers, changes of gradients, and sparse gradients as programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/exec/executor.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 6, kRows = 12, kDim = 3, kClasses = 4;

std::string Message(const Status& status) { return std::string(status.message()); }

// A program with two ids per sample, with repetitions. If `twice` is true, the program looks up the
// same table twice.
graph::Program WordNet(bool sparse, bool twice = false) {
  graph::ProgramBuilder b("words", kBatch);
  const auto words = b.Data("words", DType::kI64, {2});
  const auto label = b.Data("label", DType::kI64, {1});
  std::string x = b.Embedding(
      words,
      {.rows = kRows, .dim = kDim, .sparse = sparse, .init = {graph::Init::kUniform, -1, 1}});
  if (twice) {
    const auto more = b.Data("more", DType::kI64, {2});
    x = b.Add(x, b.Layer("lookup_table", {{more}, {"embedding_0.w"}}, {{"is_sparse", sparse}}));
  }
  b.SoftmaxLoss(b.Fc(x, kClasses), label);
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  return *std::move(program);
}

struct Trained {
  std::vector<float> params;  // all parameters after the training
  std::vector<float> before;
  Status status;
};

std::vector<float> Values(const graph::Program& program, const exec::Scope& scope) {
  std::vector<float> all;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
    const auto v = scope.Find(var->name)->span<float>();
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

Trained Train(graph::Program program, const graph::OptimizerSpec& spec, int steps, float lr = 0.1f,
              bool densify = false) {
  CpuDevice device;
  exec::Scope scope(device);
  Trained result;
  auto grads = graph::AppendBackward(program, 1.0f);
  CHECK(grads.ok()) << grads.status();
  if (densify) grads = graph::DensifyAll(program, *grads);
  CHECK(grads.ok()) << grads.status();
  result.status = graph::AppendOptimizer(program, spec, *grads);
  if (!result.status.ok()) return result;
  CHECK(exec::Initialize(program, 7, scope).ok());
  auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, {.threads = 2});
  CHECK(plan.ok()) << plan.status();
  (*plan)->Get(graph::kLearningRateVar)->span<float>()[0] = lr;
  result.before = Values(program, scope);
  exec::Executor executor(**plan);
  for (int step = 0; step < steps; ++step) {
    for (const graph::Var* var : program.VarsOf(graph::VarKind::kData)) {
      auto data = (*plan)->Get(var->name)->span<int64_t>();
      const int64_t limit = var->name == "label" ? kClasses : kRows / 2 + step % 3;
      for (size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<int64_t>(i * i + 5 * step + var->name.size()) % limit;
      }
    }
    result.status = executor.Run();
    if (!result.status.ok()) return result;
  }
  result.params = Values(program, scope);
  return result;
}

TEST(SparseGradient, GivesTheBitsOfTheDenseOneUnderEveryOptimizer) {
  for (const std::string& type : graph::OptimizerTypes()) {
    for (const bool twice : {false, true}) {
      const graph::OptimizerSpec spec{type, {{"l2_decay", 0.0}}};
      const Trained sparse = Train(WordNet(true, twice), spec, 5);
      if (graph::ReachOf(spec).value() != graph::UpdateScope::kElement) {
        EXPECT_EQ(sparse.status.code(), StatusCode::kUnimplemented);
        EXPECT_THAT(Message(sparse.status), HasSubstr("\"embedding_0.w\" is sparse"));
        continue;
      }
      ASSERT_TRUE(sparse.status.ok()) << type << ": " << sparse.status;
      const Trained dense = Train(WordNet(false, twice), spec, 5);
      EXPECT_EQ(sparse.params, dense.params) << type;
      EXPECT_NE(sparse.params, sparse.before) << type;
      EXPECT_EQ(Train(WordNet(true, twice), spec, 5, 0.1f, true).params, dense.params) << type;
    }
  }
}

TEST(SparseGradient, ClipsLikeTheDenseOne) {
  for (const ops::AttrMap& attrs :
       {ops::AttrMap{{"clip_global_norm", 0.05}}, ops::AttrMap{{"clip_norm", 0.02}},
        ops::AttrMap{{"clip_min", -0.01}, {"clip_max", 0.02}}}) {
    const graph::OptimizerSpec spec{"sgd", attrs};
    const Trained sparse = Train(WordNet(true), spec, 3), dense = Train(WordNet(false), spec, 3);
    ASSERT_EQ(sparse.params.size(), dense.params.size());
    for (size_t i = 0; i < dense.params.size(); ++i) {
      // A norm is a sum. Sparse and dense gradients add its terms in different orders.
      ASSERT_NEAR(sparse.params[i], dense.params[i], 1e-7) << i << attrs.begin()->first;
    }
    EXPECT_NE(sparse.params, Train(WordNet(true), {"sgd", {}}, 3).params);
  }
}

TEST(SparseGradient, LazyModeLeavesOtherRowsAlone) {
  // From the second step on, the rows of the first step have no gradient but still have a velocity.
  // lazy_mode does not update such rows.
  const Trained lazy = Train(WordNet(true), {"momentum", {{"lazy_mode", true}}}, 4);
  const Trained full = Train(WordNet(true), {"momentum", {}}, 4);
  EXPECT_NE(lazy.params, full.params);
}

// The lookup of the table gives a sparse gradient, another operator that reads the table gives a
// dense gradient. The sum of both is dense.
TEST(SparseGradient, MixedWithADenseOneBecomesDense) {
  graph::ProgramBuilder b("mixed", kBatch);
  const auto words = b.Data("words", DType::kI64, {1});
  const auto x = b.Embedding(words, {.rows = kRows, .dim = kDim, .sparse = true});
  const auto flat = b.Reshape(x, {0, kDim});
  const auto table = b.Layer("scale", {{"embedding_0.w"}}, {{"scale", 2.0}});
  const auto y = b.Layer("lookup_table", {{words}, {table}}, {{"is_sparse", true}});
  b.SoftmaxLoss(b.Fc(b.Add(flat, y), kClasses), b.Data("label", DType::kI64, {1}));
  auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  const auto grads = graph::AppendBackward(*program, 1.0f);
  ASSERT_TRUE(grads.ok()) << grads.status();
  for (const graph::ParamGrad& pair : *grads) {
    EXPECT_EQ(pair.rows, "") << pair.param;
    EXPECT_EQ(program->FindVar(pair.grad)->desc, program->FindVar(pair.param)->desc);
  }
  EXPECT_TRUE(graph::Verify(*program).ok());
}

double Moved(const Trained& t) {
  double total = 0;
  for (size_t i = 0; i < t.params.size(); ++i) {
    total += std::pow(double{t.params[i]} - double{t.before[i]}, 2);
  }
  return std::sqrt(total);
}

TEST(GradientRewrite, GlobalNormLimitsTheStep) {
  const double free = Moved(Train(WordNet(false), {"sgd", {}}, 1, 1.0f));
  ASSERT_GT(free, 0.1);
  EXPECT_NEAR(Moved(Train(WordNet(false), {"sgd", {{"clip_global_norm", 0.1}}}, 1, 1.0f)), 0.1,
              1e-6);
  EXPECT_NEAR(Moved(Train(WordNet(false), {"sgd", {{"clip_global_norm", 2 * free}}}, 1, 1.0f)),
              free, 1e-7);
}

TEST(GradientRewrite, StandsInTheSeedsOrderAndLeavesOutWhatIsExcluded) {
  graph::Program program = WordNet(false);
  const auto grads = graph::AppendBackward(program, 1.0f);
  ASSERT_TRUE(grads.ok());
  const size_t before = program.ops.size();
  const graph::OptimizerSpec spec{
      "lamb", {{"clip_norm", 1.0}, {"l2_decay", 0.1}, {"decay_exclude", std::string(".b,embed")}}};
  ASSERT_TRUE(graph::AppendOptimizer(program, spec, *grads).ok());
  std::vector<std::string> types;
  for (size_t i = before; i < program.ops.size(); ++i) {
    const ops::Op& op = program.ops[i];
    types.push_back(op.type);
    if (op.type == "regularize") {
      EXPECT_EQ(op.inputs[0][0], "fc_0.w");
    }
    if (op.type != "lamb") continue;
    const bool excluded = op.attrs.contains("weight_decay");
    EXPECT_EQ(excluded, op.inputs[0][0] != "fc_0.w") << op.inputs[0][0];
  }
  EXPECT_THAT(types, ElementsAre("clip_by_norm", "clip_by_norm", "clip_by_norm", "regularize",
                                 "lamb", "lamb", "lamb"));
}

TEST(GradientRewrite, RefusesWhatContradicts) {
  const auto error = [](const graph::OptimizerSpec& spec) {
    graph::Program program = WordNet(false);
    const auto grads = graph::AppendBackward(program, 1.0f);
    CHECK(grads.ok());
    return Message(graph::AppendOptimizer(program, spec, *grads));
  };
  EXPECT_THAT(error({"sgdd", {}}), HasSubstr("did you mean \"sgd\"?"));
  EXPECT_THAT(error({"sgd", {{"clip_norm", 1.0}, {"clip_global_norm", 1.0}}}), HasSubstr("one of"));
  EXPECT_THAT(error({"sgd", {{"clip_min", 1.0}}}), HasSubstr("set both"));
  EXPECT_THAT(error({"sgd", {{"clip_min", 1.0}, {"clip_max", -1.0}}}), HasSubstr("above"));
  EXPECT_THAT(error({"sgd", {{"l2_decay", -1.0}}}), HasSubstr("is -1, expected at least 0"));
  EXPECT_THAT(error({"sgd", {{"l2_decay", true}}}), HasSubstr("wrong type"));
  EXPECT_THAT(error({"sgd", {{"decay_exclude", std::string("b")}}}), HasSubstr("no weight decay"));
  EXPECT_THAT(error({"sgd", {{"beta1", 0.5}}}), HasSubstr("no attribute \"beta1\""));
  EXPECT_THAT(error({"rmsprop", {{"centered", 1.0}}}), HasSubstr("wrong type"));
}

TEST(Optimizer, SlotsFollowTheAttributes) {
  EXPECT_THAT(*graph::OptimizerSlots({"rmsprop", {}}, "w"),
              ElementsAre("w@mean_square", "w@momentum"));
  EXPECT_THAT(*graph::OptimizerSlots({"rmsprop", {{"centered", true}}}, "w"),
              ElementsAre("w@mean_square", "w@momentum", "w@mean_grad"));
}

TEST(Optimizer, FtrlSaysThatARateOfZeroIsNotForIt) {
  const Trained t = Train(WordNet(false), {"ftrl", {}}, 1, 0.0f);
  EXPECT_EQ(t.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      Message(t.status),
      HasSubstr(
          "expected above 0 [TD1104]; hint: change optimizer.schedule, whose rate becomes 0"));
}

}  // namespace
}  // namespace tandem
