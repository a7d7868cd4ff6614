// Compares every implementation of every operator with plain loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/base/check.h"

#include "tests/ops/kernel_check.h"
#include "tests/ops/kernel_run.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

constexpr uint64_t kSeed = kCheckSeed;

void CheckCases(const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    const std::span<const ops::KernelImpl> impls = ops::FindOp(c.op)->cpu_kernels();
    EXPECT_GT(CheckCase(c, {c.op.c_str(), {impls.begin(), impls.end()}}), 0)
        << CaseName(c) << ": no implementation serves this case";
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Kernels, Linear) { CheckCases(LinearCases()); }
TEST(Kernels, Image) { CheckCases(ImageCases()); }
TEST(Kernels, Norm) { CheckCases(NormCases()); }
TEST(Kernels, Elementwise) { CheckCases(ElementwiseCases()); }
TEST(Kernels, Dense) { CheckCases(DenseCases()); }
TEST(Kernels, Attention) { CheckCases(AttentionCases()); }
TEST(Kernels, Layout) { CheckCases(LayoutCases()); }
TEST(Kernels, Loss) { CheckCases(LossCases()); }
TEST(Kernels, Embedding) { CheckCases(EmbeddingCases()); }
TEST(Kernels, Click) { CheckCases(ClickCases()); }
TEST(Kernels, Optimizer) { CheckCases(OptimizerCases()); }
TEST(Kernels, Fused) { CheckCases(FusedCases()); }

TEST(Kernels, Half) { CheckCases(HalfCases()); }
TEST(Kernels, Update) { CheckCases(UpdateCases()); }
TEST(Kernels, Regime) { CheckCases(RegimeCases()); }

TEST(Kernels, RandomShapes) {
  constexpr uint64_t kRandomSeed = 7;
  RecordProperty("seed", static_cast<int>(kRandomSeed));
  CheckCases(RandomCases(kRandomSeed, 240));
}

TEST(Kernels, IdsOutsideTheTableAreNamed) {
  for (const char* op : {"lookup_table", "lookup_table_grad"}) {
    OpCase c = {.op = op, .inputs = {{Ids({4}, 9)}, {F32({9, 3})}}};
    if (c.op.ends_with("_grad")) c.inputs.push_back({F32({4, 3})});
    for (const double id : {-1.0, 9.0, 9e15}) {
      auto inputs = DrawInputs(c, kSeed);
      inputs[0].v[2] = id;
      auto run = KernelRun::Make(c, inputs);
      ASSERT_TRUE(run.ok() && (*run)->Prepare(ops::FindOp(c.op)->cpu_kernels()[0], 1).ok());
      const Status status = (*run)->Run();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.op;
      EXPECT_NE(std::string(status.message()).find("element 2 of Ids"), std::string::npos)
          << status;
    }
  }
}

// Kernels reject image descriptions and taps that would read outside the pixels.
TEST(Kernels, ImagesOutsideTheirPixelsAreNamed) {
  const OpCase c = {.op = "sample_image",
                    .inputs = {{{.desc = {DType::kU8, {60}}, .low = 0, .high = 255}},
                               {Ids({2, 3}, 1)},
                               {{.desc = {DType::kI32, {2, 2, 2}}, .low = 0, .high = 1}}}};
  struct Wrong {
    std::vector<double> images, taps;
    const char* message;  // expected error message; "": no error
  };
  const std::vector<double> images = {0, 2, 2, 12, 4, 4}, taps = {0, 768, 0, 768, 0, 1792, 256, 0};
  const auto with = [](std::vector<double> values, size_t i, double value) {
    values[i] = value;
    return values;
  };
  const Wrong cases[] = {
      {images, taps, ""},
      {with(images, 3, 13), taps, "image 1 (4x4 pixels at byte 13) lies outside of the 60 bytes"},
      {with(images, 0, -1), taps, "image 0 (2x2 pixels at byte -1)"},
      {with(images, 0, 9e18), taps, "image 0"},
      {with(images, 1, 0), taps, "image 0 (0x2 pixels"},
      {with(images, 4, 5), taps, "larger than 4x4"},
      {with(images, 2, 4e18), taps, "image 0"},
      {images, with(taps, 1, 1024), "element 1 of Taps is 1024, which lies outside of image 0"},
      {images, with(taps, 2, -1), "element 2 of Taps is -1"},
      {images, with(taps, 7, 257), "element 7 of Taps is 257, which lies outside of image 1"},
      {images, with(taps, 7, 4 * 512), "element 7 of Taps"},
  };
  for (const Wrong& wrong : cases) {
    auto inputs = DrawInputs(c, kSeed);
    inputs[1].v = wrong.images;
    inputs[2].v = wrong.taps;
    auto run = KernelRun::Make(c, inputs);
    ASSERT_TRUE(run.ok() && (*run)->Prepare(ops::FindOp(c.op)->cpu_kernels()[0], 1).ok());
    const Status status = (*run)->Run();
    EXPECT_EQ(status.ok(), std::string_view(wrong.message).empty()) << wrong.message;
    EXPECT_NE(std::string(status.message()).find(wrong.message), std::string::npos) << status;
  }
}

// Dropout drops the same elements in a whole batch and in a batch that is divided among ranks.
TEST(Kernels, DropoutIsTheSameForAnyCutOfABatch) {
  constexpr int64_t kSamples = 7, kElements = 33;
  const auto run = [](int64_t first, int64_t samples, int64_t step) {
    const Value position{
        {DType::kI64, {4}},
        {1, static_cast<double>(step), static_cast<double>(first), static_cast<double>(samples)}};
    const Value x{{DType::kF32, {samples, kElements}},
                  std::vector<double>(static_cast<size_t>(samples * kElements), 1.0)};
    const OpCase c = {.op = "dropout", .inputs = {{F32(x.desc.shape)}, {Ids({4}, 9)}}};
    auto made = KernelRun::Make(c, {x, position});
    CHECK(made.ok() && (*made)->Prepare(ops::FindOp("dropout")->cpu_kernels()[0], 1).ok());
    CHECK((*made)->Run().ok());
    return (*made)->Output(0).v;
  };
  const auto whole = run(0, kSamples, 3);
  auto parts = run(0, 2, 3);
  for (const auto& [first, samples] : {std::pair{2, 1}, {3, 4}}) {
    const auto part = run(first, samples, 3);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
  const auto dropped = std::count(whole.begin(), whole.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(dropped), kSamples * kElements / 2.0, 30);
  EXPECT_NE(run(0, kSamples, 4), whole);
}

TEST(Kernels, EveryOperatorHasACase) {
  std::set<std::string> covered;
  for (const OpCase& c : AllCases()) covered.insert(c.op);
  for (const ops::OpDef* def : ops::AllOps()) {
    if (def->is_comm) continue;
    EXPECT_TRUE(covered.contains(def->type))
        << def->type << " has no row: add one to the family of its kind in tests/ops";
    EXPECT_NE(FindOracle(def->type), nullptr) << def->type << ": add it to tests/ops/oracle.cc";
  }
}

TEST(Kernels, CaseNamesAreUnique) {
  std::set<std::string> names;
  for (const OpCase& c : AllCases()) {
    if (c.op == "adam" || c.op == "adaptive_steps" || c.op == "buffered_momentum" ||
        c.op == "every_nth" || c.op.starts_with("dgc_") || c.op == "update_loss_scaling" ||
        c.op == "accuracy" || c.op == "auc" || c.op == "pool2d_grad" || c.op == "relu_grad" ||
        c.op.starts_with("softmax") || c.op.starts_with("fused_attention") ||
        c.op.starts_with("sigmoid") || c.op.starts_with("tanh_")) {
      continue;  // these operators have rows that differ only in their random values
    }
    EXPECT_TRUE(names.insert(CaseName(c)).second) << CaseName(c) << " is there twice";
  }
}

}  // namespace
}  // namespace tandem::optest
