// pe_profile_fname: each process writes the samples of the processor's profiler into one file.
#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;

class PeProfileTest : public JobTest {
 protected:
  // Returns the number of samples in a file of gperftools; -1: the file has another format. The
  // format has a header of five words, then records of a count, a depth and `depth` addresses
  // (docs/cpuprofile-fileformat.html).
  static int64_t Samples(const std::string& path) {
    const std::string text = ReadWholeFile(path);
    std::vector<uint64_t> words(text.size() / sizeof(uint64_t));
    std::memcpy(words.data(), text.data(), words.size() * sizeof(uint64_t));
    if (words.size() < 5 || words[0] != 0 || words[1] != 3) return -1;
    int64_t samples = 0;
    for (size_t at = 5; at + 2 < words.size() && words[at] > 0; at += 2 + words[at + 1]) {
      samples += static_cast<int64_t>(words[at]);
    }
    return samples;
  }
};

TEST_F(PeProfileTest, EachProcessWritesItsSamples) {
  const std::vector<std::string> args = {"--steps_max=150",
                                         "--pe_profile_fname=" + Path("samples")};
  if (dlopen("libprofiler.so.0", RTLD_LAZY) == nullptr) {
    const auto job = StartJob("without", {"--mode=local"}, args);
    EXPECT_EQ(job->Wait(), 69);
    EXPECT_THAT(job->Output(), HasSubstr("needs gperftools, which cannot be loaded: "));
    EXPECT_THAT(job->Output(), HasSubstr("[TD5006]"));
    return;
  }
  const JobRun plain = RunJob("plain", {"--mode=local"}, {"--steps_max=150"});
  const JobRun one = RunJob("one", {"--mode=local"}, args);
  EXPECT_EQ(one.result.params_sha256, plain.result.params_sha256);
  EXPECT_GT(Samples(Path("samples")), 2);
  EXPECT_EQ(RunJob("two", {"--mode=collective", "--nproc=2"}, args).exit_code, 0);
  EXPECT_GT(Samples(Path("samples.0")), 2);
  EXPECT_GT(Samples(Path("samples.1")), 2);
}

// profile.dir measures the processor with large matrix products. oneDNN moves the stack pointer in
// such products, so a handler on the thread's own stack would overwrite the heap.
TEST_F(PeProfileTest, SamplesMayInterruptMatrixProducts) {
  if (dlopen("libprofiler.so.0", RTLD_LAZY) == nullptr) GTEST_SKIP() << "libgoogle-perftools4";
  for (const char* threads : {"1", "2"}) {
    const JobRun run =
        RunJob(std::string("products") + threads, {"--mode=local"},
               {"--steps_max=20", std::string("--threads=") + threads, "--profile.first_step=0",
                "--profile.dir=" + Path("profile"), "--pe_profile_fname=" + Path("samples")});
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_GT(Samples(Path("samples")), 2);
  }
}

TEST_F(PeProfileTest, AFileThatCannotBeWrittenIsNamed) {
  if (dlopen("libprofiler.so.0", RTLD_LAZY) == nullptr) GTEST_SKIP() << "libgoogle-perftools4";
  const auto job =
      StartJob("nowhere", {"--mode=local"}, {"--steps_max=1", "--pe_profile_fname=/proc/nowhere"});
  EXPECT_EQ(job->Wait(), 77);
  EXPECT_THAT(job->Output(), HasSubstr("pe_profile_fname: cannot write /proc/nowhere [TD2106]"));
}

}  // namespace
}  // namespace tandem::trainer
