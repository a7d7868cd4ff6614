// Mutated program files are refused with a message or become a program with gradients and an
// update; none crashes, hangs, or makes the process grow.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "common/strategy/text_file.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"
#include "tests/support/text_fuzz_util.h"

namespace tandem {
namespace {

constexpr char kProgram[] = R"(name: "net"
var { name: "img" kind: DATA dims: -1 dims: 3 dims: 8 dims: 8 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "conv.w" kind: PARAM dims: 4 dims: 3 dims: 3 dims: 3 init { kind: XAVIER_UNIFORM } }
var { name: "fc.w" kind: PARAM dims: 64 dims: 10 init { kind: XAVIER_UNIFORM } }
var { name: "fc.b" kind: PARAM dims: 10 }
op {
  type: "conv2d"
  input { slot: "Input" var: "img" }
  input { slot: "Filter" var: "conv.w" }
  output { slot: "Output" var: "c" }
  attr { name: "strides" ints { v: 1 v: 1 } }
  attr { name: "paddings" ints { v: 1 v: 1 } }
}
op {
  type: "pool2d"
  input { slot: "X" var: "c" }
  output { slot: "Out" var: "p" }
  attr { name: "ksize" ints { v: 2 v: 2 } }
  attr { name: "strides" ints { v: 2 v: 2 } }
}
op { type: "relu" input { slot: "X" var: "p" } output { slot: "Out" var: "r" } }
op {
  type: "reshape"
  input { slot: "X" var: "r" }
  output { slot: "Out" var: "flat" }
  attr { name: "shape" ints { v: 0 v: 64 } }
}
op {
  type: "fc"
  input { slot: "Input" var: "flat" }
  input { slot: "W" var: "fc.w" }
  input { slot: "Bias" var: "fc.b" }
  output { slot: "Out" var: "logits" }
}
op {
  type: "softmax_with_cross_entropy"
  input { slot: "Logits" var: "logits" }
  input { slot: "Label" var: "label" }
  output { slot: "Softmax" var: "softmax" }
  output { slot: "Loss" var: "losses" }
}
op { type: "mean" input { slot: "X" var: "losses" } output { slot: "Out" var: "loss" } }
loss: "loss"
)";

constexpr const char* kPieces[] = {"{",
                                   "}",
                                   "[",
                                   ":",
                                   "\"",
                                   "-1",
                                   "0",
                                   "999999999999999999",
                                   "-9223372036854775808",
                                   "dims: 0",
                                   "dims: -1",
                                   "dims: 4294967296",
                                   "kind: STATE",
                                   "dtype: F16",
                                   "dtype: U8",
                                   "var: \"img\"",
                                   "var: \"c\"",
                                   "slot: \"X\"",
                                   "v: 0",
                                   "v: -3",
                                   "v: 2147483647",
                                   "type: \"sum\"",
                                   "type: \"transpose\"",
                                   "type: \"batch_norm\"",
                                   "type: \"lookup_table\"",
                                   "type: \"sgd\"",
                                   "type: \"c_allreduce_sum\"",
                                   "f: 1e999",
                                   "\xff",
                                   "init { kind: CONSTANT a: 1e30 }",
                                   "loss: \"c\"",
                                   "attr { name: \"axis\" i: 7 }"};

int64_t PeakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// As a trainer does before it plans memory.
Status Build(const std::string& text, Program* program) {
  pb::ProgramDef def;
  Diagnostics diagnostics;
  ParseTextProto({"net.pbtxt", text}, &def, nullptr, &diagnostics);
  TD_RETURN_IF_ERROR(diagnostics.status());
  TD_ASSIGN_OR_RETURN(*program, FromProto(def, 8, "net.pbtxt"));
  TD_ASSIGN_OR_RETURN(const std::vector<ParamGrad> grads, AppendBackward(*program, 1.0f));
  OptimizerSpec momentum;
  momentum.type = "momentum";
  return AppendOptimizer(*program, momentum, grads);
}

TEST(ProgramFuzz, MutatedPrograms) {
  const auto [seed, runs] = FuzzRunsOf(5000);
  std::mt19937_64 random(seed);
  Program whole;
  ASSERT_EQ(Build(kProgram, &whole), OkStatus());
  const int64_t before = PeakKilobytes();
  int64_t built = 0;
  for (int64_t i = 0; i < runs; ++i) {
    const std::string text = MutateText(kProgram, kPieces, random);
    Program program;
    const Status status = Build(text, &program);
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
  EXPECT_LT(PeakKilobytes() - before, 200'000) << "the process grew";
}

}  // namespace
}  // namespace tandem
