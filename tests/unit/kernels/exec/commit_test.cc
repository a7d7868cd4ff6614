// Tests the commit point of a step. With PlanOptions::commit, all operators after the commit point
// wait for the end of all communication.
#include "kernels/exec/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/exec/executor.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/distribute/update_by_owner.h"
#include "kernels/graph/optimizer.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Fails communication number `fails`. All other communications succeed at once.
class LosesOne final : public exec::CommHandler {
 public:
  StatusOr<int> Register(const exec::CommNode&) override { return count++; }
  void Start(int index, int64_t, exec::CommDone* done) override {
    done->Complete(index == fails ? Unavailable("the peer is gone") : OkStatus());
  }
  Duration timeout() const override { return std::chrono::seconds(5); }
  int count = 0, fails = -1;
};

// Returns a program images -> batch_norm -> fc -> fc -> loss with the optimizer momentum. Each
// gradient is reduced separately.
graph::Program Network() {
  graph::ProgramBuilder b("net", 4);
  const auto x = b.Data("x", DType::kF32, {3, 2, 2});
  const auto label = b.Data("label", DType::kI64, {1});
  b.SoftmaxLoss(b.Fc(b.Fc(b.BatchNorm(x), 4, graph::Act::kRelu), 2), label);
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  const auto grads = *graph::AppendBackward(*program, 1.0f);
  std::vector<std::vector<graph::ParamGrad>> single;
  for (const graph::ParamGrad& pair : grads) single.push_back({pair});
  CHECK(graph::InsertAllReduce(*program, single).ok());
  CHECK(graph::AppendOptimizer(*program, {.type = "momentum"}, grads).ok());
  return *std::move(program);
}

TEST(Commit, LiesBehindAllCommunicationAndBeforeTheUpdates) {
  const graph::Program program = Network();
  const exec::Commit commit = exec::FindCommit(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ops::Op& op = program.ops[i];
    const bool early = static_cast<int>(i) < commit.op;
    EXPECT_TRUE(early || !ops::FindOp(op.type)->is_comm) << op.type;
    EXPECT_TRUE(!early || op.type != "momentum");
  }
  EXPECT_EQ(commit.early.size(), 2u);  // the running mean and variance of the batch_norm
  EXPECT_EQ(commit.own, commit.early);
  for (const graph::Var* param : program.VarsOf(graph::VarKind::kParam)) {
    EXPECT_THAT(commit.late, Contains(param->name));
    EXPECT_THAT(commit.early, Not(Contains(param->name)));
  }
}

// A step pulls the rows of a table from pservers before it computes, and pushes gradients at its
// end. The local copy of the table is no state of the rank. The statistics of the rows are state of
// the rank.
TEST(Commit, TablesOfServersAreNotTheRanks) {
  graph::ProgramBuilder b("net", 4);
  const auto ids = b.Data("ids", DType::kI64, {1});
  const auto label = b.Data("label", DType::kI64, {1});
  const auto rows = b.Embedding(ids, {.rows = 9, .dim = 3, .sparse = true});
  b.SoftmaxLoss(b.Fc(b.BatchNorm(rows), 2), label);
  auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<graph::ParamGrad> tables, dense;
  const std::vector<graph::ParamGrad> grads = *graph::AppendBackward(*program, 1.0f);
  for (const graph::ParamGrad& pair : grads) {
    (pair.rows.empty() ? dense : tables).push_back(pair);
  }
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_TRUE(graph::InsertTables(*program, tables).ok());
  ASSERT_TRUE(graph::InsertAllReduce(*program, {dense}).ok());
  ASSERT_TRUE(graph::AppendOptimizer(*program, {.type = "momentum"}, dense).ok());
  EXPECT_THAT(exec::CopiedTables(*program), ::testing::ElementsAre(tables[0].param));
  const exec::Commit commit = exec::FindCommit(*program);
  EXPECT_EQ(commit.early.size(), 2u);  // the running mean and variance of the batch_norm
  EXPECT_EQ(commit.own, commit.early);
  EXPECT_THAT(commit.late, Not(Contains(tables[0].param)));
  EXPECT_EQ(program->ops[static_cast<size_t>(commit.op)].type, "momentum");
}

TEST(Commit, NothingIsLateWhereCommunicationComesLast) {
  graph::Program program = Network();
  const std::string param = program.VarsOf(graph::VarKind::kParam)[0]->name;
  ASSERT_TRUE(graph::AppendBroadcast(program, {{0, {{.param = param, .grad = ""}}}}).ok());
  EXPECT_EQ(exec::FindCommit(program).op, static_cast<int>(program.ops.size()));
  EXPECT_TRUE(exec::FindCommit(program).late.empty());
  EXPECT_THAT(exec::FindCommit(program).early, Contains(param));
  EXPECT_THAT(exec::FindCommit(program).own, Not(Contains(param)));
}

// Returns one number per communication: the number of parameters that a run changes if this
// communication fails.
std::vector<int> Changed(bool commit, int threads) {
  std::vector<int> changed;
  const graph::Program program = Network();
  for (int fails = 0;; ++fails) {
    CpuDevice device;
    exec::Scope scope(device);
    LosesOne comm;
    comm.fails = fails;
    CHECK(exec::Initialize(program, 7, scope).ok());
    scope.Find(graph::kLearningRateVar)->span<float>()[0] = 0.5f;
    exec::PlanOptions options;
    options.commit = commit;
    options.num_threads = threads;
    auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, &comm, options);
    CHECK(plan.ok()) << plan.status();
    if (fails == comm.count) return changed;
    for (float& v : (*plan)->Get("x")->span<float>()) v = static_cast<float>(changed.size()) + 1;
    (*plan)->Get("x")->span<float>()[0] = -1;
    for (int64_t& v : (*plan)->Get("label")->span<int64_t>()) v = 1;
    std::map<std::string, std::vector<float>> before;
    const auto params = program.VarsOf(graph::VarKind::kParam);
    for (const graph::Var* param : params) {
      const auto values = scope.Find(param->name)->span<float>();
      before[param->name].assign(values.begin(), values.end());
    }
    exec::Executor executor(**plan);
    EXPECT_THAT(std::string(executor.Run().message()), HasSubstr("the peer is gone"));
    changed.push_back(0);
    for (const graph::Var* param : params) {
      const auto values = scope.Find(param->name)->span<float>();
      changed.back() += !std::equal(values.begin(), values.end(), before[param->name].begin());
    }
  }
}

TEST(Commit, ALostCommunicationLeavesEveryParameterAsItWas) {
  // Without the commit point, some parameters change. This shows that the next check can fail.
  EXPECT_THAT(Changed(false, 1), Contains(testing::Gt(0)));
  for (const int threads : {1, 3}) EXPECT_THAT(Changed(true, threads), Each(0)) << threads;
}

}  // namespace
}  // namespace tandem
