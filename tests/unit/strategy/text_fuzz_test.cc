// A mutated file must cause neither a crash nor a hang. A file that loads without an error must
// survive saving and loading.
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "common/strategy/validate.h"
#include "proto/job.pb.h"
#include "proto/program.pb.h"
#include "tests/support/job_text.h"
#include "tests/support/text_fuzz_util.h"

namespace tandem::strategy {
namespace {

TEST(TextFuzz, MutatedJobs) {
  const auto [seed, runs] = FuzzRunsOf(20000);
  std::mt19937_64 random(seed);
  int64_t loaded = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < runs; ++i) {
    const std::string text = MutateText(kJobText, kJobPieces, random);
    JobConfig job;
    Origins origins;
    Diagnostics diagnostics;
    ParseTextProto({"job.pbtxt", text}, &job, &origins, &diagnostics);
    loaded += diagnostics.ok() ? 1 : 0;
    ValidateStrategy(job.strategy(), {TrainMode::kPserver, Origin(), 0}, origins, "strategy",
                     &diagnostics);
    EXPECT_LE(diagnostics.ErrorText().size(), 200'000u);
    // A partly parsed message can also be saved and loaded. The message contains only fields with
    // valid values.
    const std::string once = SaveText(job);
    JobConfig again;
    Diagnostics none;
    ParseTextProto({"again", once}, &again, nullptr, &none);
    ASSERT_EQ(none.ErrorText(), "") << "seed " << seed << " run " << i << "\n" << text;
    ASSERT_EQ(SaveText(again), once) << "seed " << seed << " run " << i << "\n" << text;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%lld of %lld mutated files loaded, %.0f files/s\n", static_cast<long long>(loaded),
              static_cast<long long>(runs), static_cast<double>(runs) / took.count());
}

// Tests the depth limit with a recursive type, at its exact value and for much deeper nesting.
TEST(TextFuzz, DepthIsLimited) {
  for (int depth : {31, 32, 33, 100, 100000}) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "nested_type {\n";
    for (int i = 0; i < depth; ++i) text += "}";
    google::protobuf::DescriptorProto out;
    Diagnostics diagnostics;
    ParseTextProto({"deep", text}, &out, nullptr, &diagnostics);
    EXPECT_EQ(diagnostics.ok(), depth <= kTextFileDepthMax) << depth;
    EXPECT_LE(diagnostics.errors(), 1) << depth;
  }
}

// The parser must be fast for a file with 1 MiB of one repeated fragment, whether the file is valid
// or not.
TEST(TextFuzz, LargeFiles) {
  const std::string_view pieces[] = {"{",
                                     "}",
                                     "[",
                                     "x ",
                                     "x: 1\n",
                                     "name: 'a'\n",
                                     "\n",
                                     "\x01",
                                     "'",
                                     "-",
                                     "var {",
                                     "op: [",
                                     "var { name: 'b' dims: [-1, 2] }\n"};
  for (std::string_view piece : pieces) {
    std::string text;
    while (text.size() + piece.size() <= static_cast<size_t>(1 << 20)) text += piece;
    pb::ProgramDef program;
    Origins origins;
    Diagnostics diagnostics;
    ParseTextProto({"large", text}, &program, &origins, &diagnostics);
    EXPECT_LE(diagnostics.entries().size(), 100u);
    EXPECT_EQ(diagnostics.ok(), piece == "\n" || piece.size() > 20) << piece;
  }
}

}  // namespace
}  // namespace tandem::strategy
