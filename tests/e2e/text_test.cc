// Tests a language model on a text. Dropout must drop the same elements for any number of ranks and
// after a resume.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

constexpr char kJob[] = R"(
name: "text"
model {
  zoo: "transformer_lm"
  arg { name: "layers" value: "2" }
  arg { name: "width" value: "24" }
  arg { name: "heads" value: "2" }
  arg { name: "sequence" value: "16" }
  arg { name: "dropout" value: "0.3" }
}
data {
  format: "text"
  dir: "."
  text { file: "text" sequence: 16 }
}
optimizer { type: "momentum" learning_rate: 0.05 }
global_batch_size: 16
epochs: 2
)";

class TextJobTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    Write("job.pbtxt", kJob);
    std::string text;
    while (text.size() < 12000)
      text += "it is said that " + std::to_string(text.size() % 97) + ". ";
    Write("text", text);
  }
};

TEST_F(TextJobTest, DropsTheSameOnAnyRanks) {
  const JobRun one = RunJob("one", {"--mode=local"}, {});
  ASSERT_FALSE(HasFailure());
  EXPECT_LT(one.result.loss, 3.0);  // a random guess of a byte has the loss ln 256 = 5.5
  const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
  const JobRun pserver = RunJob("pserver", {"--servers=2", "--workers=2"}, {});
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  // Two ranks differ from one rank only in the order of sums. If dropout dropped other elements,
  // the loss would differ more.
  EXPECT_NEAR(collective.result.loss, one.result.loss, 1e-4);
  std::string job = ReadWholeFile(job_);
  job.replace(job.find("\"0.3\""), 5, "\"0\"");
  Write("job.pbtxt", job);
  const JobRun without = RunJob("without", {"--mode=local"}, {});
  EXPECT_GT(std::abs(without.result.loss - one.result.loss), 1e-2);
}

TEST_F(TextJobTest, DropsTheSameAfterAResume) {
  const JobRun whole = RunJob("whole", {"--mode=local"}, {"--steps_max=30"});
  const std::string dir = "--checkpoint.dir=" + Path("checkpoints");
  RunJob("first", {"--mode=local"}, {"--steps_max=13", dir});
  const JobRun rest = RunJob("rest", {"--mode=local"}, {"--steps_max=30", dir});
  EXPECT_EQ(rest.result.params_sha256, whole.result.params_sha256);
}

}  // namespace
}  // namespace tandem
