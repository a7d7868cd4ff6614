// enable_auto_fusion: each chain of elementwise operators becomes one operator. The intermediate
// values need no memory, and the bits are the same.
#include "gtest/gtest.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/optimizer.h"
#include "proto/strategy.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class AutoFusionTest : public KnobProgramTest {
 protected:
  // A chain of scale, add, scale, relu and mul between two layers.
  static graph::Program Train(bool fuse, graph::PassReport* report) {
    graph::ProgramBuilder b("chain", 64);
    const auto h = b.Fc(b.Data("x", DType::kF32, {8}), 512);
    auto y = b.Layer("scale", {{h}}, {{"scale", 0.5}});
    y = b.Add(y, h);
    y = b.Layer("scale", {{y}}, {{"scale", 1.5}, {"bias", 0.25}});
    y = b.Layer("elementwise_mul", {{b.Relu(y)}, {h}}, {});
    b.SoftmaxLoss(b.Fc(y, 4), b.Data("label", DType::kI64, {1}));
    graph::Program program = *b.Finish();
    auto grads = *graph::AppendBackward(program, 1.0f);
    EXPECT_TRUE(graph::AppendOptimizer(program, {}, grads).ok());
    DistributedStrategy strategy;
    strategy.mutable_build_strategy()->set_enable_auto_fusion(fuse);
    graph::PassPipeline passes(strategy, nullptr);
    const Status status = passes.Run(graph::PassStage::kUpdate, program, grads);
    EXPECT_TRUE(status.ok()) << status;
    const auto reports = passes.TakeReports();
    if (!reports.empty()) *report = reports[0];
    return program;
  }
};

TEST_F(AutoFusionTest, OneLoopTheSameBits) {
  graph::PassReport report;
  const graph::Program plain = Train(false, &report), fused = Train(true, &report);
  EXPECT_GE(report.outcome.matched, 1);
  EXPECT_GE(Count(fused, "fused_elementwise"), 1);
  EXPECT_EQ(Count(fused, "relu"), 0);
  EXPECT_LE(fused.ops.size() + 4, plain.ops.size());
  const Ran many = Run(plain, 3), one = Run(fused, 3);
  EXPECT_LE(one.arena_bytes, many.arena_bytes);
  EXPECT_EQ(one.params, many.params);
}

TEST_F(AutoFusionTest, FromTheKnobToTheProgram) {
  const JobPrograms programs = Programs({{"enable_auto_fusion", "true"}});
  const graph::PassReport report = ReportOf(programs, "enable_auto_fusion");
  EXPECT_EQ(report.outcome.matched, 0);
  EXPECT_EQ(report.outcome.reason.substr(0, 8), "none of ") << "LeNet has no such chain";
}

}  // namespace
}  // namespace tandem::trainer
