// Tests data that cannot be divided evenly among the ranks. Every epoch must end on all ranks at
// the same step. PAD adds samples, DROP omits the remaining samples, and with JOIN some ranks have
// no samples in the last step.
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

class UnevenDataTest : public JobTest {
 protected:
  // Trains two epochs of `samples` samples and returns the result.
  JobResult Run(const std::string& name, const Args& launch, int samples, int batch,
                const std::string& remainder) const {
    return RunJob(name, launch,
                  {"--epochs=2", "--data.shuffle=false", "--threads=1",
                   "--data.train_samples_max=" + std::to_string(samples),
                   "--global_batch_size=" + std::to_string(batch), "--data.remainder=" + remainder})
        .result;
  }
};

const Args kTwoRanks = {"--mode=collective", "--nproc=2"};
const Args kPserver = {"--servers=1", "--workers=2"};
const Args kLocal = {"--mode=local"};

// The data consist of 21 pieces of 16 samples: 11 pieces for the first rank and 10 pieces for the
// second.
TEST_F(UnevenDataTest, AllRanksEndTheEpoch) {
  const JobResult pad = Run("pad", kTwoRanks, 21 * 16, 32, "PAD");
  const JobResult drop = Run("drop", kTwoRanks, 21 * 16, 32, "DROP");
  const JobResult join = Run("join", kTwoRanks, 21 * 16, 32, "JOIN");
  EXPECT_EQ(pad.steps, 22);
  EXPECT_EQ(drop.steps, 20);
  EXPECT_EQ(join.steps, 22);
  EXPECT_NE(join.params_sha256, pad.params_sha256);
  EXPECT_NE(join.params_sha256, drop.params_sha256);
  EXPECT_EQ(Run("servers", kPserver, 21 * 16, 32, "JOIN").params_sha256, join.params_sha256);
}

// The second rank never has a sample. Thus every step equals a step of the first rank alone, and
// the mean of the gradients is over one rank.
TEST_F(UnevenDataTest, WhoHasNoSamplesAddsNothingAndIsNotCounted) {
  const JobResult one = Run("one", kLocal, 32, 32, "PAD");
  EXPECT_EQ(Run("two", kTwoRanks, 32, 64, "JOIN").params_sha256, one.params_sha256);
  EXPECT_EQ(Run("servers", kPserver, 32, 64, "JOIN").params_sha256, one.params_sha256);
  EXPECT_NE(Run("half", kTwoRanks, 31, 64, "PAD").params_sha256, one.params_sha256);
}

TEST_F(UnevenDataTest, WithFullBatchesNothingChanges) {
  EXPECT_EQ(Run("join", kTwoRanks, 64, 32, "JOIN").params_sha256,
            Run("pad", kTwoRanks, 64, 32, "PAD").params_sha256);
}

TEST_F(UnevenDataTest, RefusesWhereThereIsNoMeanOverRanks) {
  const auto job =
      StartJob("local", kTwoRanks, {"--data.remainder=JOIN", "--adaptive_localsgd=true"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("JOIN cannot be combined with LocalSGD"));
}

}  // namespace
}  // namespace tandem
