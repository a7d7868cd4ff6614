// use_mkldnn and mkldnn_enabled_op_types: which operators of a plan run in oneDNN. By default
// oneDNN computes the convolutions of the residual network that are 1x1 or have strides.
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class MkldnnTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    KnobProgramTest::SetUp();
    if (!IsSkipped()) {
      UseModel("zoo: \"residual_cnn\" arg { name: \"channels\" value: \"32,64\" }");
    }
  }

  // Returns the number of operators of each type that a plan of this job runs in oneDNN.
  std::map<std::string, int> InOneDnn(const Overrides& knobs) {
    const graph::Program program = Programs(knobs).train;
    const EffectiveJob job = Job(knobs);
    const auto options = PlanOptionsOf(*job.config, 1);
    EXPECT_TRUE(options.ok()) << options.status();
    CpuDevice device;
    exec::Scope scope(device);
    const auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, *options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::map<std::string, int> counts;
    for (const std::string& choice : (*plan)->choices()) {
      const size_t at = choice.find(": onednn");
      if (at != std::string::npos) ++counts[choice.substr(0, at)];
    }
    return counts;
  }
};

TEST_F(MkldnnTest, TheListedTypesAlone) {
  const auto all = InOneDnn({});
  ASSERT_TRUE(all.contains("conv2d") && all.contains("conv2d_grad"));
  const auto forward = InOneDnn({{"mkldnn_enabled_op_types", "conv2d"}});
  EXPECT_EQ(forward.size(), 1u);
  EXPECT_EQ(forward.at("conv2d"), all.at("conv2d"));
  EXPECT_EQ(InOneDnn({{"mkldnn_enabled_op_types", "conv2d,conv2d_grad"}}).size(), 2u);
}

TEST_F(MkldnnTest, NoneWithoutUseMkldnn) {
  EXPECT_TRUE(InOneDnn({{"use_mkldnn", "false"}}).empty());
}

TEST_F(MkldnnTest, TheJobTrainsEitherWay) {
  std::string text = ReadWholeFile(job_);
  const size_t at = text.find("32,64");
  // The network has few channels, so that the plain loops do not take long.
  job_ = Write("small.pbtxt", text.replace(at, 5, "4"));
  const JobRun with = RunJob("with", {"--mode=local"}, {"--steps_max=3"});
  const JobRun without = RunJob("without", {"--mode=local"}, {"--steps_max=3", "--use_mkldnn=0"});
  EXPECT_NEAR(with.result.loss, without.result.loss, 1e-3 * with.result.loss);
}

TEST_F(MkldnnTest, AnUnknownTypeIsNamed) {
  const auto job = StartJob("unknown", {"--mode=local"}, {"--mkldnn_enabled_op_types=conv3d"});
  EXPECT_NE(job->Wait(), 0);
  EXPECT_NE(job->Output().find(
                "unknown operator \"conv3d\" [TD1204] (NOT_FOUND)\nhint: did you mean \"conv2d\""),
            std::string::npos)
      << job->Output();
}

}  // namespace
}  // namespace tandem::trainer
