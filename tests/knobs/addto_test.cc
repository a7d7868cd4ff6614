// enable_addto: each part of a gradient is added to the sum as soon as it is computed. The step
// needs less memory and gives the same bits.
#include "gtest/gtest.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/optimizer.h"
#include "proto/strategy.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class AddtoTest : public KnobProgramTest {
 protected:
  // Four layers read the value h, so the gradient of h is the sum of four parts.
  static graph::Program Train(bool addto, graph::PassReport* report) {
    graph::ProgramBuilder b("fan", 64);
    const auto h = b.Fc(b.Data("x", DType::kF32, {8}), 256, graph::Act::kRelu);
    auto sum = b.Fc(h, 4);
    for (int i = 0; i < 3; ++i) sum = b.Add(sum, b.Fc(h, 4));
    b.SoftmaxLoss(sum, b.Data("label", DType::kI64, {1}));
    graph::Program program = *b.Finish();
    auto grads = *graph::AppendBackward(program, 1.0f);
    DistributedStrategy strategy;
    strategy.mutable_build_strategy()->set_enable_addto(addto);
    graph::PassPipeline passes(strategy, nullptr);
    EXPECT_TRUE(passes.Run(graph::PassStage::kBackward, program, grads).ok());
    EXPECT_TRUE(graph::AppendOptimizer(program, {}, grads).ok());
    const auto reports = passes.TakeReports();
    if (!reports.empty()) *report = reports[0];
    return program;
  }
};

TEST_F(AddtoTest, LessMemoryTheSameBits) {
  graph::PassReport report;
  const graph::Program plain = Train(false, &report), addto = Train(true, &report);
  EXPECT_EQ(Count(plain, "sum"), 1);
  EXPECT_EQ(Count(addto, "sum"), 3);
  EXPECT_EQ(report.outcome.matched, 1);
  const Ran kept = Run(plain, 3), less = Run(addto, 3);
  // With addto, two parts are in memory at a time. Without addto, four parts and the sum are in
  // memory.
  const size_t part = 64 * 256 * sizeof(float);
  EXPECT_LE(less.arena_bytes + 2 * part, kept.arena_bytes);
  EXPECT_EQ(less.params, kept.params);
}

TEST_F(AddtoTest, FromTheKnobToTheProgram) {
  UseModel("zoo: \"residual_cnn\" arg { name: \"channels\" value: \"8\" }");
  const JobPrograms plain = Programs({}), addto = Programs({{"enable_addto", "true"}});
  EXPECT_GT(ReportOf(addto, "enable_addto").outcome.matched, 0);
  EXPECT_EQ(Run(addto.train, 3).params, Run(plain.train, 3).params);
}

}  // namespace
}  // namespace tandem::trainer
