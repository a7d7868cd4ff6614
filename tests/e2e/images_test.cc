// Tests whole jobs that train image networks with batch normalisation on synthetic images.
#include <filesystem>

#include "common/tensor/device.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"
#include "trainer/files/safetensors.h"

namespace tandem {
namespace {

using Args = std::vector<std::string>;

const Args kLocal = {"--mode=local"};
const Args kCollective = {"--mode=collective", "--nproc=2"};
const Args kPserver = {"--servers=2", "--workers=2"};

class ImagesTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (!IsSkipped()) job_ = Write("job.pbtxt", kResNet18Job);
  }
  JobRun Train(const std::string& name, const Args& launch, int steps, Args args = {}) const {
    args.push_back("--steps_max=" + std::to_string(steps));
    args.push_back("--checkpoint.dir=" + Path(name + ".ck"));
    return RunJob(name, launch, args);
  }
  // Returns the running statistics in the newest checkpoint.
  std::map<std::string, std::vector<float>> Statistics(const std::string& name) const {
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(Path(name + ".ck"))) {
      newest = std::max(newest, entry.path().string());
    }
    std::map<std::string, std::vector<float>> found;
    for (const auto& entry : std::filesystem::directory_iterator(newest)) {
      if (entry.path().extension() != ".safetensors") continue;
      const auto file = trainer::ReadSafetensors(entry.path(), device_);
      EXPECT_TRUE(file.ok()) << file.status();
      if (!file.ok()) continue;
      for (const auto& [variable, tensor] : file->tensors) {
        if (!variable.ends_with(".mean") && !variable.ends_with(".variance")) continue;
        const auto values = tensor.span<float>();
        found[variable] = {values.begin(), values.end()};
      }
    }
    return found;
  }

 private:
  mutable CpuDevice device_;
};

// Each rank normalises a separate half of the batch. The parameters must not depend on the mode.
// The same holds for the running statistics that rank 0 saves and uses in evaluations.
TEST_F(ImagesTest, PserversAndCollectiveGiveTheSameBits) {
  const JobRun pserver = Train("pserver", kPserver, 12), ring = Train("ring", kCollective, 12);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(pserver.result.params_sha256, ring.result.params_sha256);
  EXPECT_EQ(pserver.result.loss, ring.result.loss);
  const auto statistics = Statistics("ring");
  EXPECT_EQ(statistics.size(), 40u);  // mean and variance for each of 20 normalisation layers
  EXPECT_EQ(statistics, Statistics("pserver"));
}

// A resumed job has the same parameters and running statistics as an undisturbed job.
TEST_F(ImagesTest, ResumesWithItsStatistics) {
  for (const Args& launch : {kLocal, kPserver}) {
    const std::string mode = launch[0].substr(2, 4);
    const JobRun whole = Train("whole" + mode, launch, 10);
    Train("parts" + mode, launch, 5);
    const JobRun resumed = Train("parts" + mode, launch, 10);
    EXPECT_EQ(resumed.result.params_sha256, whole.result.params_sha256) << mode;
    EXPECT_EQ(resumed.result.loss, whole.result.loss) << mode;
    EXPECT_EQ(Statistics("parts" + mode), Statistics("whole" + mode));
  }
}

// The test evaluates with the running statistics. A high accuracy shows that the running statistics
// are correct.
TEST_F(ImagesTest, Learns) {
  const JobRun run = Train("learns", kLocal, 60, {"--global_batch_size=32"});
  EXPECT_GT(run.result.accuracy, 0.8);
}

}  // namespace
}  // namespace tandem
