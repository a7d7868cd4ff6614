// cpu_num: the replicas of one process are ranks. A job with n replicas gives the same bits as a
// job with n processes, also if the batch size is not a multiple of n.
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

// The jobs run with one thread, because the bits of some kernels depend on the number of threads.
// By default the number of threads depends on the number of replicas.
class CpuNumTest : public JobTest {
 protected:
  JobRun Train(const std::string& name, const Args& launch, Args args) const {
    args.insert(args.end(), {"--threads=1", "--steps_max=40"});
    return RunJob(name, launch, args);
  }
};

const Args kLocal = {"--mode=local"};
const Args kTwo = {"--mode=collective", "--nproc=2"};

TEST_F(CpuNumTest, PlacesOfOneProcessTrainWhatProcessesTrain) {
  const JobRun one = Train("one", kLocal, {});
  const JobRun places = Train("places", kLocal, {"--cpu_num=2"});
  const JobRun processes = Train("processes", kTwo, {});
  EXPECT_EQ(places.result.params_sha256, processes.result.params_sha256);
  EXPECT_EQ(places.result.accuracy, processes.result.accuracy);
  EXPECT_NE(places.result.params_sha256, one.result.params_sha256) << "sums in another order";
  EXPECT_NEAR(places.result.loss, one.result.loss, 1e-3 * one.result.loss);
}

TEST_F(CpuNumTest, PlacesOfSeveralProcesses) {
  const JobRun nested = Train("nested", kTwo, {"--CPU_NUM=2"});
  const JobRun flat = Train("flat", {"--mode=collective", "--nproc=4"}, {});
  EXPECT_EQ(nested.result.params_sha256, flat.result.params_sha256);
}

// To pservers, each replica is a separate trainer.
TEST_F(CpuNumTest, PlacesOfATrainerOfPservers) {
  const JobRun places = Train("places", {"--servers=1", "--workers=1"}, {"--cpu_num=2"});
  EXPECT_EQ(places.result.params_sha256,
            Train("workers", {"--servers=1", "--workers=2"}, {}).result.params_sha256);
  EXPECT_EQ(places.result.params_sha256,
            Train("local", kLocal, {"--cpu_num=2"}).result.params_sha256);
}

// 4 replicas share a batch of 5 samples as 1, 1, 1 and 2. Every sample has the same weight.
TEST_F(CpuNumTest, ABatchThatDoesNotDivideIsTheSameBatch) {
  const Args batch = {"--global_batch_size=5", "--optimizer.learning_rate=0.0003"};
  Args four = batch;
  four.push_back("--cpu_num=4");
  const JobRun one = Train("one", kLocal, batch), places = Train("places", kLocal, four);
  EXPECT_NE(places.result.params_sha256, one.result.params_sha256);
  EXPECT_NEAR(places.result.loss, one.result.loss, 1e-5 * one.result.loss);
}

TEST_F(CpuNumTest, Refusals) {
  const auto few = StartJob("few", kLocal, {"--cpu_num=4", "--global_batch_size=3"});
  EXPECT_EQ(few->Wait(), 2);
  EXPECT_THAT(few->Output(), HasSubstr("too small for 1 workers with 4 places each"));
}

}  // namespace
}  // namespace tandem::trainer
