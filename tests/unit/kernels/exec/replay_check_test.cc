// Tests the second computation of a step (verify_replay): results with flipped bits are found
// before they are sent or change a parameter, and correct steps keep their bits.
//   TANDEM_REPLAY_FLIPS=N flips (1000)
#include "kernels/exec/replay_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"
#include "kernels/ops/elementwise/dropout.h"

namespace tandem::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kRows = 20;

// A net of images and rows with running statistics, dropout, a metric with counts, and a sparse
// gradient.
graph::Program Net() {
  graph::ProgramBuilder b("net", kBatch);
  const auto image = b.Data("image", DType::kF32, {1, 8, 8});
  const auto ids = b.Data("ids", DType::kI64, {2});
  const auto label = b.Data("label", DType::kI64, {1});
  auto x = b.Conv2d(image, {.channels = 3});
  x = b.Pool2d(b.BatchNorm(x, graph::Act::kRelu), {});
  const auto rows = b.Embedding(
      ids, {.rows = kRows, .dim = 3, .sparse = true, .init = {graph::Init::kUniform, -1, 1}});
  x = b.Add(b.Fc(x, 6, graph::Act::kRelu), b.Reshape(rows, {kBatch, 6}));
  const auto logits = b.Fc(b.Dropout(x, 0.3), 1);
  b.Auc(b.SigmoidLoss(logits, label), label);
  auto program = b.Finish();
  CHECK(program.ok()) << program.status();
  return *std::move(program);
}

// The communication of a rank in a world of two ranks, in which the other rank sends the same data.
class Echo final : public CommHandler {
 public:
  StatusOr<int> Register(const CommNode& node) override {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }
  void Start(int index, int64_t, CommDone* done) override {
    for (const CommTensor& t : nodes_[static_cast<size_t>(index)].out) {
      sent.insert(t.var);
      auto* data = static_cast<float*>(t.data);
      for (int64_t i = 0; i < t.desc.shape.numel(); ++i) data[i] *= 2;
    }
    done->Complete(OkStatus());
  }
  Duration timeout() const override { return std::chrono::seconds(5); }

  std::set<std::string> sent;  // variables since the last clear

 private:
  std::vector<CommNode> nodes_;
};

// Flips a bit of a result and then, or before, lets another observer see the operator.
class Flips final : public ExecObserver {
 public:
  Flips(const Plan& plan, ReplayCheck& check) : plan_(plan), check_(check) {}
  // Chooses what is flipped in the next run. `late`: after the check of this operator.
  void Choose(size_t step, size_t slot, uint64_t bit, bool late) {
    step_ = step;
    slot_ = slot;
    bit_ = bit;
    late_ = late;
    flipped = "";
  }
  Status BeforeStep(const PlanStep& step, int64_t run) override {
    return check_.BeforeStep(step, run);
  }
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override {
    const bool here = &step == &plan_.steps()[step_];
    if (here && !late_) Flip(step);
    TD_RETURN_IF_ERROR(check_.OnStep(step, run, begin, end));
    if (here && late_) Flip(step);
    return OkStatus();
  }
  std::string flipped;  // variable with the flipped bit; "": none

 private:
  void Flip(const PlanStep& step) {
    if (step.run == nullptr) return;
    size_t position = 0;
    for (const auto& slot : plan_.program().ops[static_cast<size_t>(step.op)].outputs) {
      for (const std::string& var : slot) {
        if (position++ != slot_ || var.empty()) continue;
        const size_t bits = plan_.program().FindVar(var)->desc.bytes() * 8;
        auto* const data = static_cast<uint8_t*>(step.args.out[position - 1]);
        data[bit_ % bits / 8] ^= static_cast<uint8_t>(1 << bit_ % 8);
        flipped = var;
      }
      if (slot.empty()) ++position;
    }
  }

  const Plan& plan_;
  ReplayCheck& check_;
  size_t step_ = 0, slot_ = 0;
  uint64_t bit_ = 0;
  bool late_ = false;
};

// The lasting variables of a scope.
using Values = std::map<std::string, std::vector<uint8_t>>;

class ReplayCheckTest : public ::testing::Test {
 protected:
  void Build(CommHandler* comm = nullptr) {
    auto program = Net();
    auto grads = *graph::AppendBackward(program, 0.5f);
    if (comm != nullptr) {
      grads = *graph::DensifyAll(program, grads);
      CHECK(graph::InsertAllReduce(program, graph::GroupGradients(program, grads, {})).ok());
    }
    CHECK(graph::AppendOptimizer(program, {"momentum", {{"mu", 0.9}}}, grads).ok());
    CHECK(Initialize(program, 7, scope_).ok());
    PlanOptions options;
    auto plan = Plan::Make(program, backend_, scope_, comm, options);
    CHECK(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    auto check = ReplayCheck::Make(*plan_, backend_, scope_, options);
    CHECK(check.ok()) << check.status();
    check_ = *std::move(check);
    executor_ = std::make_unique<Executor>(*plan_);
    plan_->Get(graph::kLearningRateVar)->span<float>()[0] = 0.1f;
  }
  void Feed(int step) {
    std::mt19937 random(static_cast<uint32_t>(step));
    for (float& v : plan_->Get("image")->span<float>()) {
      v = static_cast<float>(random() % 1000) / 500 - 1;
    }
    for (int64_t& v : plan_->Get("ids")->span<int64_t>())
      v = static_cast<int64_t>(random() % kRows);
    for (int64_t& v : plan_->Get("label")->span<int64_t>()) v = static_cast<int64_t>(random() % 2);
  }
  Status Run(int step, ExecObserver* observer) {
    Feed(step);
    const ops::DropoutPosition at{7, step, 0, kBatch};
    std::memcpy(scope_.Find(ops::kDropoutPosition)->data(), &at, sizeof at);
    if (observer != nullptr) check_->Begin();
    executor_->SetObserver(observer);
    return executor_->Run();
  }
  Values Lasting() const {
    Values values;
    for (const auto& [name, tensor] : scope_.tensors()) {
      const auto* const data = static_cast<const uint8_t*>(tensor.data());
      values[name].assign(data, data + tensor.bytes());
    }
    return values;
  }
  void Restore(const Values& values) {
    for (const auto& [name, bytes] : values) {
      std::memcpy(scope_.Find(name)->data(), bytes.data(), bytes.size());
    }
  }
  // Returns the values that decide about the next step: all but running statistics and metrics.
  Values Params(Values values) const {
    for (const graph::Var& var : plan_->program().vars()) {
      if (var.kind != graph::VarKind::kParam) values.erase(var.name);
    }
    return values;
  }

  CpuDevice device_;
  Scope scope_{device_};
  Backend backend_ = Backend::Cpu();
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<ReplayCheck> check_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(ReplayCheckTest, CorrectStepsKeepTheirBits) {
  Build();
  const Values first = Lasting();
  for (int step = 0; step < 10; ++step) ASSERT_EQ(ToString(Run(step, nullptr)), "OK");
  const Values plain = Lasting();
  Restore(first);
  for (int step = 0; step < 10; ++step) {
    const Status status = Run(step, step % 3 == 1 ? nullptr : check_.get());
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(Lasting(), plain);
  EXPECT_NE(plain, first);
}

// All operators are compared but those of the optimizer.
TEST_F(ReplayCheckTest, TheForwardAndBackwardPassIsCompared) {
  Build();
  const auto& ops = plan_->program().ops;
  const auto updates = std::ranges::count_if(
      ops, [](const ops::Op& op) { return op.role == ops::OpRole::kOptimize; });
  EXPECT_GT(updates, 0);
  EXPECT_EQ(check_->compared(), ops.size() - static_cast<size_t>(updates));
}

TEST_F(ReplayCheckTest, FlippedBitsAreFoundBeforeParametersChange) {
  Build();
  for (int step = 0; step < 3; ++step) ASSERT_EQ(ToString(Run(step, nullptr)), "OK");
  const Values before = Lasting();
  ASSERT_EQ(ToString(Run(3, nullptr)), "OK");
  const Values after = Lasting();
  Flips flips(*plan_, *check_);
  std::mt19937 random(11);
  const char* const count = std::getenv("TANDEM_REPLAY_FLIPS");
  int wrong = 0, found = 0, harmless = 0, missed = 0, updates = 0;
  for (int i = count != nullptr ? std::atoi(count) : 1000; i > 0; --i) {
    const size_t step = random() % plan_->steps().size();
    const ops::Op& op = plan_->program().ops[static_cast<size_t>(plan_->steps()[step].op)];
    if (op.role == ops::OpRole::kOptimize) {
      ++updates;
      continue;
    }
    Restore(before);
    const bool late = random() % 2 == 0;
    flips.Choose(step, random() % op.outputs.size(), random(), late);
    const Status status = Run(3, &flips);
    if (flips.flipped.empty()) continue;
    if (!status.ok()) {
      EXPECT_EQ(Params(Lasting()), Params(before)) << status;
    }
    if (!late) {
      // A wrong result of a kernel.
      ++wrong;
      EXPECT_THAT(ToString(status),
                  AllOf(HasSubstr(absl::StrFormat(" %s: verify_replay", op.type)),
                        HasSubstr("the result " + flips.flipped + " of "), HasSubstr("[TD1220]")));
      continue;
    }
    // A bit that flips in memory after the operator.
    const bool same = Params(Lasting()) == Params(after);
    (!status.ok() ? found : same ? harmless : missed) += 1;
  }
  std::printf(
      "flips: %d wrong results, all found; in memory %d found, %d without effect, %d missed\n",
      wrong, found, harmless, missed);
  EXPECT_GT(wrong, 0);
  EXPECT_GT(found, 0);
  EXPECT_EQ(missed, 0);
  EXPECT_GT(updates, 0);
}

TEST_F(ReplayCheckTest, AWrongGradientIsNotSent) {
  Echo comm;
  Build(&comm);
  const Values before = Lasting();
  ASSERT_EQ(ToString(Run(0, check_.get())), "OK");
  const std::set<std::string> all = std::exchange(comm.sent, {});
  ASSERT_GT(all.size(), 1u);
  Flips flips(*plan_, *check_);
  for (size_t step = 0; step < plan_->steps().size(); ++step) {
    const PlanStep& at = plan_->steps()[step];
    if (plan_->program().ops[static_cast<size_t>(at.op)].role != ops::OpRole::kBackward) continue;
    Restore(before);
    comm.sent.clear();
    flips.Choose(step, 0, 5, /*late=*/false);
    const Status status = Run(0, &flips);
    if (flips.flipped.empty()) continue;
    EXPECT_FALSE(status.ok()) << flips.flipped;
    EXPECT_FALSE(comm.sent.contains(flips.flipped)) << flips.flipped;
    EXPECT_NE(comm.sent, all);
    EXPECT_EQ(Params(Lasting()), Params(before));
  }
}

// A rank whose operators all depend on what it receives, such as the last section of a pipeline.
TEST_F(ReplayCheckTest, AStepThatDependsOnReceivedValuesIsRefused) {
  graph::ProgramBuilder b("late", kBatch);
  const auto x = b.Data("x", DType::kF32, {3});
  b.Relu(b.Layer("c_broadcast", {{x}}, {}));
  const auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  Echo comm;
  auto plan = Plan::Make(*program, backend_, scope_, &comm, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto check = ReplayCheck::Make(**plan, backend_, scope_, {});
  EXPECT_EQ(check.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ToString(check.status()), HasSubstr("[TD1221]"));
}

}  // namespace
}  // namespace tandem::exec
