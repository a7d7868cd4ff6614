// A mutated program file is rejected with a message, or becomes a program with gradients and an
// update. No file may crash the process, make it hang, or make memory grow without bound.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "proto/program.pb.h"
#include "tests/support/program_text.h"
#include "tests/support/text_fuzz_util.h"

namespace tandem {
namespace {

int64_t PeakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(ProgramFuzz, MutatedPrograms) {
  const auto [seed, runs] = FuzzRunsOf(5000);
  std::mt19937_64 random(seed);
  graph::Program whole;
  ASSERT_EQ(BuildProgram(kProgramText, &whole), OkStatus());
  [[maybe_unused]] const int64_t before = PeakKilobytes();
  int64_t built = 0;
  for (int64_t i = 0; i < runs; ++i) {
    const std::string text = MutateText(kProgramText, kProgramPieces, random);
    graph::Program program;
    const Status status = BuildProgram(text, &program);
    if (!status.ok()) {
      EXPECT_NE(status.message(), "") << "seed " << seed << " run " << i;
      continue;
    }
    ++built;
    pb::ProgramDef def;
    ToProto(program, &def);
    ASSERT_GT(def.ByteSizeLong(), 0u);
  }
  std::printf("%lld of %lld mutated programs were built\n", static_cast<long long>(built),
              static_cast<long long>(runs));
  EXPECT_GT(built, 0);
  EXPECT_LT(built, runs);
#ifndef __SANITIZE_ADDRESS__  // the address sanitizer keeps freed memory
  EXPECT_LT(PeakKilobytes() - before, 200'000) << "the process grew";
#endif
}

}  // namespace
}  // namespace tandem
