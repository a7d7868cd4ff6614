// cudnn_exhaustive_search, conv_search_cache and conv_workspace_size_limit: the trainer measures
// the algorithms of convolutions once per machine and stores the results. A second start measures
// nothing and gives the same bits. Scratch memory stays within the limit.
#include <algorithm>
#include <fstream>

#include "gmock/gmock.h"
#include "kernels/ops/conv/conv_search.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

class ConvSearchTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    KnobProgramTest::SetUp();
    if (IsSkipped()) return;
    UseModel(
        "zoo: \"residual_cnn\" arg { name: \"channels\" value: \"8,64\" }"
        " arg { name: \"blocks\" value: \"1\" }");
  }
  // The plan of the job: "type: implementation" of each forward convolution, the scratch memory of
  // all kernels in bytes, and the numbers of measured and of stored problems.
  struct Chosen {
    std::vector<std::string> convolutions;
    size_t scratch_bytes = 0;
    int64_t measured = 0, found = 0;
  };
  Chosen Choose(const Overrides& knobs) {
    const graph::Program program = Programs(knobs).train;
    const EffectiveJob job = Job(knobs);
    auto options = PlanOptionsOf(*job.config, 2);
    EXPECT_TRUE(options.ok()) << options.status();
    CpuDevice device;
    const auto search = ConvSearchOf(*job.config, dir_ + "/", device.place(), &notes_);
    options->settings.conv.search = search.get();
    exec::Scope scope(device);
    const auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, *options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    Chosen chosen{.scratch_bytes = (*plan)->scratch_bytes()};
    for (const std::string& choice : (*plan)->choices()) {
      if (choice.starts_with("conv2d")) chosen.convolutions.push_back(choice);
    }
    if (search == nullptr) return chosen;
    EXPECT_TRUE(search->Save().ok());
    chosen.measured = search->measured();
    chosen.found = search->found();
    return chosen;
  }

  std::string notes_;
};

TEST_F(ConvSearchTest, WhatWasMeasuredIsKept) {
  const Overrides on = {{"cudnn_exhaustive_search", "true"}};
  EXPECT_EQ(Choose({}).measured, 0) << "only who asks for it searches";
  EXPECT_EQ(ReadWholeFile(Path("conv_algorithms.txt")), "");
  const Chosen first = Choose(on);
  EXPECT_GT(first.measured, 6);
  const std::string file = ReadWholeFile(Path("conv_algorithms.txt"));
  EXPECT_THAT(file, HasSubstr("filter's gradient of conv2d_grad"));
  const Chosen second = Choose(on);
  EXPECT_EQ(second.measured, 0);
  EXPECT_GT(second.found, 6);
  EXPECT_EQ(second.convolutions, first.convolutions);
  EXPECT_EQ(ReadWholeFile(Path("conv_algorithms.txt")), file);
}

// The file has tenths of a microsecond. Two times that the file does not tell apart are equal in
// the first run too.
TEST_F(ConvSearchTest, RoundedTimesAreChosenBy) {
  const std::string path = Path("rounded.txt");
  ops::ConvSearch first(path);
  const auto measure = [] {
    return std::vector<ops::ConvMeasurement>{{"slow", 7.04, 0}, {"fast", 7.01, 0}};
  };
  const auto chosen = first.Fastest("machine", "problem", 0, measure);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_TRUE(first.Save().ok());
  ops::ConvSearch second(path);
  ASSERT_TRUE(second.Load().ok());
  const auto again = second.Fastest("machine", "problem", 0, nullptr);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *chosen);
}

// The trainer uses the entries of the file instead of new measurements.
TEST_F(ConvSearchTest, TheFileDecides) {
  const Overrides on = {{"cudnn_exhaustive_search", "true"}};
  Choose(on);
  const std::string measured = ReadWholeFile(Path("conv_algorithms.txt"));
  const size_t line = measured.find("own or oneDNN: conv2d f32[8,8");
  ASSERT_NE(line, std::string::npos) << measured;
  const size_t at = measured.find("\town ", line) + 5, end = measured.find(' ', at);
  // Sets the time of Tandem's kernel in the file to `us` microseconds. Returns the number of
  // forward convolutions that use this kernel with the new file.
  const auto own = [&](const char* us) {
    std::string text = measured;
    Write("conv_algorithms.txt", text.replace(at, end - at, us));
    const auto chosen = Choose(on).convolutions;
    return std::count(chosen.begin(), chosen.end(), "conv2d: direct");
  };
  EXPECT_GT(own("0.1"), own("1e9"));
}

TEST_F(ConvSearchTest, AnotherMachinesMeasurementsDoNotCountAndADamagedFileIsReplaced) {
  const Overrides on = {{"cudnn_exhaustive_search", "true"}};
  const int64_t problems = Choose(on).measured;
  std::string text = ReadWholeFile(Path("conv_algorithms.txt"));
  for (size_t at = 0; (at = text.find("; oneDNN", at)) != std::string::npos; at += 12) {
    text.replace(at, 2, " of old; ");
  }
  Write("conv_algorithms.txt", text);
  EXPECT_EQ(Choose(on).measured, problems);
  EXPECT_THAT(ReadWholeFile(Path("conv_algorithms.txt")), HasSubstr(" of old; "));
  Write("conv_algorithms.txt", "nonsense\n");
  EXPECT_EQ(Choose(on).measured, problems);
  EXPECT_THAT(notes_,
              HasSubstr("conv_algorithms.txt:1: the line does not contain measured algorithms"));
  EXPECT_EQ(Choose(on).measured, 0);
}

TEST_F(ConvSearchTest, ScratchMemoryStaysWithinTheLimit) {
  // Without the limit, the network needs about 0.9 MiB of scratch memory on a CPU without AVX-512,
  // and more than 1 MiB with AVX-512.
  ASSERT_GT(Choose({}).scratch_bytes, size_t{900} << 10);
  EXPECT_LE(Choose({{"conv_workspace_size_limit", "1"}}).scratch_bytes, size_t{1} << 20);
  EXPECT_LE(Choose({{"conv_workspace_size_limit", "1"}, {"cudnn_exhaustive_search", "true"}})
                .scratch_bytes,
            size_t{1} << 20);
  const auto none = StartJob("none", {"--mode=local"}, {"--conv_workspace_size_limit=0"});
  EXPECT_NE(none->Wait(), 0);
  EXPECT_THAT(none->Output(), HasSubstr("more scratch memory than conv_workspace_size_limit"));
}

TEST_F(ConvSearchTest, WithoutScratchMemoryPlainLoopsServePlainImages) {
  job_ = Path("job.pbtxt");  // a job with the network LeNet
  for (const std::string& choice : Choose({}).convolutions) {
    EXPECT_THAT(choice, HasSubstr(": direct"));
  }
  for (const std::string& choice : Choose({{"conv_workspace_size_limit", "0"}}).convolutions) {
    EXPECT_THAT(choice, HasSubstr(": plain"));
  }
}

TEST_F(ConvSearchTest, TheTrainerSearchesOnceAndLearnsTheSame) {
  const Args steps = {"--steps_max=3"};
  const Args searching = {"--steps_max=3", "--cudnn_exhaustive_search=true"};
  const JobRun plain = RunJob("plain", {"--mode=local"}, steps);
  const JobRun first = RunJob("first", {"--mode=local"}, searching);
  const JobRun second = RunJob("second", {"--mode=local"}, searching);
  EXPECT_THAT(first.output, ::testing::Not(HasSubstr("convolutions: 0 measured")));
  EXPECT_THAT(second.output, HasSubstr("convolutions: 0 measured"));
  EXPECT_EQ(second.result.params_sha256, first.result.params_sha256);
  EXPECT_NEAR(first.result.loss, plain.result.loss, 1e-3 * plain.result.loss);
}

}  // namespace
}  // namespace tandem::trainer
