// sync_batch_norm: two ranks normalise like one process, with equal and unequal shares of the
// batch. The test compares the results after one step. Over several steps a rounding error could
// change the sign of a relu's input and grow.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"
#include "tests/support/params_test_util.h"

namespace tandem::trainer {
namespace {

constexpr int kNorms = 20;  // number of batch normalisations in ResNet-18

class SyncBatchNormTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    KnobProgramTest::SetUp();
    if (!IsSkipped()) job_ = Write("norms.pbtxt", absl::StrCat(kResNet18Job, "steps_max: 1\n"));
  }
  TensorMap Train(const std::string& name, const std::vector<std::string>& launch,
                  std::vector<std::string> args) const {
    args.push_back("--checkpoint.dir=" + Path(name + ".ck"));
    RunJob(name, launch, args);
    return SavedParams(Path(name + ".ck"), device_);
  }

  mutable CpuDevice device_;  // the device must outlive the tensors of the tests
};

const std::vector<std::string> kLocal = {"--mode=local"};
const std::vector<std::string> kTwoRanks = {"--mode=collective", "--nproc=2"};

TEST_F(SyncBatchNormTest, TwoCollectivesMoreForEachNorm) {
  const Overrides plain = {{"mode", "collective"}};
  Overrides sync = plain;
  sync.emplace_back("sync_batch_norm", "true");
  const graph::Program without = Programs(plain, 2).train, with = Programs(sync, 2).train;
  EXPECT_EQ(Count(without, "batch_norm_moments"), 0);
  EXPECT_EQ(Count(with, "batch_norm_moments"), kNorms);
  EXPECT_EQ(Count(with, "batch_norm_grad_sums"), kNorms);
  EXPECT_EQ(Count(with, "c_allreduce_sum"), Count(without, "c_allreduce_sum") + 2 * kNorms);
  EXPECT_EQ(Count(Programs(sync, 1).train, "batch_norm_moments"), 0) << "nobody to ask";
}

TEST_F(SyncBatchNormTest, RanksNormaliseAsOne) {
  const TensorMap one = Train("one", kLocal, {});
  EXPECT_GT(Distance(Train("apart", kTwoRanks, {}), one), 1e-4) << "nothing to be shown";
  const std::string sync = "--sync_batch_norm=true";
  EXPECT_LT(Distance(Train("two", kTwoRanks, {sync}), one), 1e-6);
  EXPECT_LT(Distance(Train("places", kLocal, {sync, "--cpu_num=2"}), one), 1e-6);
  EXPECT_LT(Distance(Train("fused", kTwoRanks,
                           {sync, "--fuse_bn_act_ops=true", "--fuse_bn_add_act_ops=true"}),
                     one),
            1e-6);
}

TEST_F(SyncBatchNormTest, UnequalShares) {
  const std::string fifteen = "--global_batch_size=15";  // shares of 8 and 7 samples
  const TensorMap one = Train("one", kLocal, {fifteen});
  EXPECT_LT(Distance(Train("two", kTwoRanks, {fifteen, "--sync_batch_norm=true"}), one), 1e-6);
}

// Every step needs the statistics of all ranks, but only every second step sends gradients.
TEST_F(SyncBatchNormTest, WithGradientMerge) {
  // With other images, a rounding error could change the sign of a relu's input. With these images,
  // no sign changes.
  const std::vector<std::string> merge = {"--gradient_merge=true",
                                          "--gradient_merge_configs.k_steps=2", "--steps_max=2",
                                          "--data.synthetic.samples=320"};
  auto sync = merge;
  sync.emplace_back("--sync_batch_norm=true");
  EXPECT_LT(Distance(Train("two", kTwoRanks, sync), Train("one", kLocal, merge)), 1e-6);
}

}  // namespace
}  // namespace tandem::trainer
