// benchmark: prints one line for each operator after each step, with the time and memory of the
// operator.
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"
#include "tests/support/cuda_on_host_job.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BenchmarkTest : public KnobProgramTest {};

TEST_F(BenchmarkTest, ALineForEachOperatorOfEachStep) {
  const graph::Program program = Programs({}).train;
  const JobRun run =
      RunJob("on", {"--mode=local"},
             {"--steps_max=4", "--FLAGS_benchmark=true", "--num_iteration_per_run=4"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::vector<int> lines(4);
  int step = -1, conv = 0;
  for (const auto line : absl::StrSplit(run.output, '\n')) {
    const std::string text(line);
    if (text.find("benchmark of step ") != std::string::npos) ++step;
    if (text.find(" MB written, ") == std::string::npos) continue;
    ASSERT_TRUE(step >= 0 && step < 4) << text;
    ++lines[static_cast<size_t>(step)];
    EXPECT_THAT(text, HasSubstr(" MB alive"));
    conv += text.find(" conv2d: ") != std::string::npos ? 1 : 0;
  }
  for (const int count : lines) EXPECT_EQ(count, static_cast<int>(program.ops.size()));
  EXPECT_EQ(conv, 4 * Count(program, "conv2d"));
  const JobRun off = RunJob("off", {"--mode=local"}, {"--steps_max=4"});
  EXPECT_THAT(off.output, Not(HasSubstr("benchmark of step")));
  EXPECT_EQ(run.result.params_sha256, off.result.params_sha256);
}

TEST_F(BenchmarkTest, NotWithAnotherWhoLooksOn) {
  const auto job = StartJob("two", {"--mode=local"}, {"--benchmark=true", "--check_nan_inf=true"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("benchmark and check_nan_inf exclude each other"));
}

class BenchmarkOnDevice : public CudaOnHostTest {};

// The time of an operator is the time of its kernels. Therefore the trainer waits for the end of
// each operator.
TEST_F(BenchmarkOnDevice, EachOperatorIsWaitedFor) {
  const auto lines = [](const std::string& text, const std::string& part) {
    int count = 0;
    for (const auto line : absl::StrSplit(text, '\n')) {
      count += line.find(part) != std::string::npos ? 1 : 0;
    }
    return count;
  };
  const JobRun off = Run("off", "cuda", {"--steps_max=2"});
  const JobRun on = Run("on", "cuda", {"--steps_max=2", "--benchmark=true"});
  ASSERT_EQ(on.exit_code, 0) << on.output;
  const int operators = lines(on.output, " MB written, ");
  EXPECT_GT(operators, 2 * 100);
  EXPECT_EQ(lines(Log("on"), "wait") - lines(Log("off"), "wait"), 2 * operators);
  EXPECT_EQ(on.result.params_sha256, off.result.params_sha256);
}

}  // namespace
}  // namespace tandem::trainer
