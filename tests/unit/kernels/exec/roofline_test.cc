// Tests the peak performance of a GPU and the minimum time of a step.
#include "kernels/exec/roofline.h"

#include <gtest/gtest.h>

#include "kernels/graph/builder.h"

namespace tandem {
namespace {

constexpr exec::DeviceProperties kA100 = {.major = 8,
                                          .minor = 0,
                                          .multiprocessors = 108,
                                          .bus_bits = 5120,
                                          .clock_hz = 1.41e9,
                                          .memory_clock_hz = 1.215e9};

// The vendor's figures for an A100: 19.5, 156 and 312 TFLOP/s, 1555 GB/s.
TEST(Roofline, PeaksAreThoseOfTheMaker) {
  const auto a100 = exec::PeakOf(kA100);
  ASSERT_TRUE(a100.ok()) << a100.status();
  EXPECT_NEAR(a100->f32_flops, 19.5e12, 0.05e12);
  EXPECT_NEAR(a100->tf32_flops, 156e12, 0.5e12);
  EXPECT_NEAR(a100->half_flops, 312e12, 0.5e12);
  EXPECT_NEAR(a100->bytes, 1555e9, 1e9);
  // The vendor's figures for an H100 SXM5: 67, 494.5 and 989 TFLOP/s, 3.35 TB/s.
  const auto h100 = exec::PeakOf({.major = 9,
                                  .minor = 0,
                                  .multiprocessors = 132,
                                  .bus_bits = 5120,
                                  .clock_hz = 1.83e9,
                                  .memory_clock_hz = 2.619e9});
  ASSERT_TRUE(h100.ok()) << h100.status();
  EXPECT_NEAR(h100->half_flops, 989e12, 2e12);
  EXPECT_NEAR(h100->tf32_flops, 494.5e12, 1e12);
  EXPECT_NEAR(h100->bytes, 3.35e12, 0.01e12);
  exec::DeviceProperties other = kA100;
  other.minor = 7;
  EXPECT_EQ(exec::PeakOf(other).status().code(), StatusCode::kNotFound);
}

// The fc of [8,6] x [6,4] has 2 * 8 * 6 * 4 floating-point operations. The relu of [8,4] moves 2 *
// 8 * 4 numbers.
TEST(Roofline, AnOperatorIsBoundByWhatTakesLonger) {
  graph::ProgramBuilder b("small", 8);
  b.SoftmaxLoss(b.Fc(b.Data("x", DType::kF32, {6}), 4, graph::Act::kRelu),
                b.Data("label", DType::kI64, {1}));
  graph::Program program = *b.Finish();
  ASSERT_EQ(program.ops[0].type, "fc");
  ASSERT_EQ(program.ops[1].type, "relu");
  program.ops.resize(2);
  const double flops = 2.0 * 8 * 6 * 4, fc_bytes = 4.0 * (48 + 24 + 4 + 32), relu_bytes = 4.0 * 64;
  const exec::DevicePeak fast_memory = {
      .f32_flops = 1, .tf32_flops = 8, .half_flops = 16, .bytes = 100};
  EXPECT_DOUBLE_EQ(exec::LeastSeconds(program, fast_memory, false), flops + relu_bytes / 100);
  EXPECT_DOUBLE_EQ(exec::LeastSeconds(program, fast_memory, true), flops / 8 + relu_bytes / 100);
  const exec::DevicePeak fast_cores = {
      .f32_flops = 1e9, .tf32_flops = 8e9, .half_flops = 16e9, .bytes = 1};
  EXPECT_DOUBLE_EQ(exec::LeastSeconds(program, fast_cores, false), fc_bytes + relu_bytes);
  // The same program with 16-bit values moves half of the bytes.
  for (const char* name : {"x", "fc_0.w", "fc_0.out"}) {
    for (graph::Var& var : program.vars()) {
      if (var.name == name) var.desc.dtype = DType::kF16;
    }
  }
  const double relu_half = 2.0 * 32 + 4.0 * 32;
  EXPECT_DOUBLE_EQ(exec::LeastSeconds(program, fast_memory, false), flops / 16 + relu_half / 100);
}

}  // namespace
}  // namespace tandem
