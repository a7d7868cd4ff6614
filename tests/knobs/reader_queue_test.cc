// use_double_buffer and reader_queue_speed_test_mode: whether the reader prepares a batch before
// its step needs the batch, and whether each step uses a new batch.
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Args = std::vector<std::string>;

class ReaderQueueTest : public JobTest {
 protected:
  JobRun Train(const std::string& name, Args flags) {
    flags.emplace_back("--steps_max=30");
    const JobRun run = RunJob(name, {"--mode=local"}, flags);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run;
  }
  nlohmann::json Json(const std::string& name) const {
    return nlohmann::json::parse(ReadWholeFile(Path(name + ".json")), nullptr, false);
  }
};

TEST_F(ReaderQueueTest, WithoutADoubleBufferNoBatchIsThereBeforeItIsAskedFor) {
  const JobRun ahead = Train("ahead", {});
  const JobRun late = Train("late", {"--use_double_buffer=false"});
  EXPECT_GT(Json("ahead")["batches_ready"], 0);
  EXPECT_EQ(Json("late")["batches_ready"], 0);
  EXPECT_GT(Json("late")["data_wait_seconds"], 0.0);
  EXPECT_EQ(late.result.params_sha256, ahead.result.params_sha256);
}

TEST_F(ReaderQueueTest, ASpeedTestClaimsNothingButTimes) {
  const JobRun run = Train("speed", {"--FLAGS_reader_queue_speed_test_mode=true"});
  EXPECT_THAT(run.output, HasSubstr("so the job does not train"));
  EXPECT_THAT(run.output, Not(HasSubstr("eval ")));
  const nlohmann::json result = Json("speed");
  EXPECT_EQ(result["speed_test"], true);
  EXPECT_EQ(result["steps"], 30);
  EXPECT_EQ(result["batches_ready"].get<int>() >= 29, true) << "the first one stays where it is";
  for (const char* claim : {"accuracy", "loss", "params_sha256"}) {
    EXPECT_FALSE(result.contains(claim)) << claim;
  }
}

TEST_F(ReaderQueueTest, ASpeedTestKeepsNoCheckpoint) {
  const auto job = StartJob(
      "kept", {"--mode=local"},
      {"--steps_max=3", "--reader_queue_speed_test_mode=true", "--checkpoint.dir=" + Path("kept")});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("so checkpoint.dir has no effect"));
}

}  // namespace
}  // namespace tandem::trainer
