// Tests the source code of fused operators (kernels/ops/fused/fused_source.h): which groups of
// operators share code and launches, and which groups are rejected. tests/gpu and
// tests/cuda_on_host test that the code compiles and gives correct results.
#include "kernels/ops/fused/fused_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using testing::HasSubstr;
using testing::Not;

StatusOr<ops::FusedSource> SourceOf(const OpCase& c) {
  const ops::Op op = MakeOp(c);
  std::vector<const TensorDesc*> in;
  for (const Draw& draw : c.inputs[0]) in.push_back(&draw.desc);
  TD_ASSIGN_OR_RETURN(const ops::Body body,
                      ops::BindBody(ops::OpView(op, *ops::FindOp(c.op), in, {})));
  return ops::WriteFusedSource(body);
}

// Returns a fused operator that scales each input by its factor and writes one output per input.
OpCase Scales(const std::vector<Draw>& inputs, const std::vector<double>& factors) {
  OpCase c{.op = "fused_elementwise", .inputs = {inputs}, .many_outputs = inputs.size()};
  for (size_t i = 0; i < inputs.size(); ++i) {
    c.body.push_back({.type = "scale",
                      .inputs = {{absl::StrCat("in", i)}},
                      .outputs = {{absl::StrCat("out", i)}},
                      .attrs = {{"scale", factors[i]}}});
  }
  return c;
}

std::string Refusal(const OpCase& c) {
  const auto source = SourceOf(c);
  EXPECT_EQ(source.status().code(), StatusCode::kUnimplemented) << source.status();
  return std::string(source.status().message());
}

TEST(FusedSourceTest, GroupsAlikeShareCode) {
  const auto source = SourceOf(Scales({F32({5}), F32({7}), F32({9})}, {2, 3, 2}));
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->groups.size(), 3u);
  EXPECT_EQ(source->groups[0].body, source->groups[2].body);
  EXPECT_NE(source->groups[0].body, source->groups[1].body);
  EXPECT_EQ(source->groups[1].elements, 7);
  EXPECT_THAT(source->text, HasSubstr("struct Body1"));
  EXPECT_THAT(source->text, Not(HasSubstr("struct Body2")));
  EXPECT_THAT(source->text, HasSubstr("Table = FusedTable<3, 6>"));
  EXPECT_FALSE(source->ends);
  EXPECT_THAT(source->text, Not(HasSubstr("fused_end")));
}

// The source code does not contain sizes, so code that was compiled for one size is valid for all
// sizes.
TEST(FusedSourceTest, SizesAreNotInTheText) {
  const auto small = SourceOf(Scales({F32({5})}, {2})),
             large = SourceOf(Scales({F32({70, 8})}, {2}));
  const auto half = Scales({Draw{.desc = {DType::kF16, Shape({5})}}}, {2});
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(small->text, large->text);
  EXPECT_NE(small->text, SourceOf(half)->text);
}

TEST(FusedSourceTest, EveryElementwiseOperatorIsThereButFtrl) {
  std::set<std::string> served;
  for (const OpCase& c : FusedCases()) {
    if (c.op != "fused_elementwise" || !SourceOf(c).ok()) continue;
    for (const ops::Op& op : c.body) served.insert(op.type);
  }
  for (const ops::OpDef* def : ops::AllOps()) {
    const bool wanted = def->elementwise && std::string_view(def->type) != "ftrl";
    EXPECT_EQ(served.contains(def->type), wanted) << def->type;
  }
}

TEST(FusedSourceTest, WhatDoesNotFitIntoOneLaunchIsCut) {
  const size_t n = 1500;
  const auto source = SourceOf(Scales(std::vector<Draw>(n, F32({3})), std::vector<double>(n, 2)));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->groups.size(), n);
  EXPECT_LT(source->groups_max, n);
  EXPECT_GE(source->groups_max, n / 2);
  const size_t bytes = 8 + source->groups_max * sizeof(ops::FusedGroup) + source->addresses_max * 8;
  EXPECT_LE(bytes, static_cast<size_t>(ops::kFusedTableMax));
  EXPECT_EQ(source->addresses_max, 2 * source->groups_max);
}

TEST(FusedSourceTest, WhatIsRefusedIsNamed) {
  std::vector<double> factors;
  for (int i = 0; i < 17; ++i) factors.push_back(i);
  EXPECT_EQ(
      Refusal(Scales(std::vector<Draw>(17, F32({3})), factors)),
      "the fused operator has more than 16 different chains of elementwise operations, which is "
      "not supported");
  EXPECT_EQ(Refusal(Scales({F32({3})}, {std::numeric_limits<double>::infinity()})),
            "scale: the attributes are scale=inf and bias=0, but this kernel supports only finite "
            "numbers");
  OpCase sum{.op = "fused_elementwise", .inputs = {{}}};
  sum.body = {{.type = "sum", .inputs = {{}}, .outputs = {{"out0"}}}};
  for (size_t i = 0; i < 5000; ++i) {
    sum.inputs[0].push_back(F32({3}));
    sum.body[0].inputs[0].push_back(absl::StrCat("in", i));
  }
  EXPECT_EQ(Refusal(sum),
            "the fused chain has 5001 tensors, which is more than this kernel supports");
}

TEST(NvrtcLibraryTest, WhatIsMissingIsNamed) {
  const Status status = ops::OpenNvrtc("/nowhere/libnvrtc.so").status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("NVRTC (libnvrtc.so): "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/libnvrtc.so"));
}

}  // namespace
}  // namespace tandem::optest
