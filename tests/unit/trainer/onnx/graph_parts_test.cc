// Tests the functions that build a program from an ONNX graph: batch sizes, known numbers and
// attributes.
#include <gtest/gtest.h>

#include "common/tensor/device.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/attributes.h"
#include "trainer/onnx/batched_program.h"
#include "trainer/onnx/known_values.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;

class BatchedProgramTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(batched_.AddInput("x", DType::kF32, {6, 4}, 0).ok()); }

  graph::Program program_;
  BatchedProgram batched_{program_};
};

TEST_F(BatchedProgramTest, TheBatchIsFollowedThroughReshapes) {
  EXPECT_TRUE(batched_.HasBatch("x"));
  EXPECT_EQ(*batched_.Sizes("x"), (Ints{kBatch + 1, 6, 4}));
  ASSERT_TRUE(batched_.Reshape("x", {kBatch + 6, 4}, "rows").ok());
  EXPECT_FALSE(batched_.HasBatch("rows")) << "it is six times the batch";
  const auto axis = batched_.BatchOf("rows");
  ASSERT_TRUE(axis.ok() && axis->has_value());
  EXPECT_EQ((*axis)->axis, 0);
  EXPECT_EQ((*axis)->times, 6);
  EXPECT_EQ((*axis)->stride, 24) << "elements of a sample";
  ASSERT_TRUE(batched_.Reshape("rows", {kBatch + 1, 24}, "flat").ok());
  EXPECT_TRUE(batched_.HasBatch("flat"));
}

TEST_F(BatchedProgramTest, SamplesStayContiguous) {
  ASSERT_TRUE(batched_.Reshape("x", {kBatch + 6, 4}, "rows").ok());
  EXPECT_EQ(batched_.Reshape("rows", {4, kBatch + 6}, "mixed").code(), StatusCode::kUnimplemented);
  EXPECT_EQ(batched_.Reshape("x", {12, 4}, "fixed").code(), StatusCode::kUnimplemented)
      << "the result would not depend on the batch";
}

TEST_F(BatchedProgramTest, AnOperatorFitsAnyBatch) {
  const Status one = batched_.Append("reshape", {{"x"}}, {{"shape", Ints{12, 4}}}, "one");
  EXPECT_EQ(one.code(), StatusCode::kUnimplemented);
  EXPECT_NE(one.message().find("TD1214"), std::string_view::npos);
  EXPECT_TRUE(batched_.Append("relu", {{"x"}}, {}, batched_.NewVar("y")).ok());
  EXPECT_TRUE(batched_.HasBatch("y"));
  EXPECT_NE(batched_.NewVar("y"), "y") << "the name is taken";
}

class KnownValuesTest : public ::testing::Test {
 protected:
  void AddFloats(const std::string& name, const Ints& dims, const std::vector<float>& numbers,
                 bool trained) {
    ::onnx::TensorProto proto;
    proto.set_data_type(::onnx::TensorProto::FLOAT);
    for (const int64_t dim : dims) proto.add_dims(dim);
    for (const float number : numbers) proto.add_float_data(number);
    ASSERT_TRUE(known_.AddConstant(name, proto, trained).ok());
  }

  CpuDevice host_;
  ExternalData external_{""};
  KnownValues known_{external_, host_};
};

TEST_F(KnownValuesTest, ParametersAreNoKnownNumbers) {
  AddFloats("w", {2, 2}, {1, 2, 3, 4}, /*trained=*/true);
  AddFloats("factor", {}, {0.5}, /*trained=*/false);
  AddFloats("scale", {}, {0.5}, /*trained=*/true);
  AddFloats("mask", {2}, {0, -1e9f}, /*trained=*/true);
  EXPECT_NE(known_.Find("w"), nullptr);
  EXPECT_EQ(known_.Untrained("w"), nullptr);
  ASSERT_NE(known_.Scalar("factor"), nullptr);
  EXPECT_EQ(*known_.Scalar("factor"), 0.5f);
  EXPECT_EQ(known_.Scalar("scale"), nullptr) << "a trained number has no fixed value";
  EXPECT_NE(known_.Untrained("mask"), nullptr) << "a mask is not trained";
  EXPECT_EQ(known_.Find("absent"), nullptr);
  EXPECT_FALSE(known_.Get("w")->uniform);
}

TEST_F(KnownValuesTest, APartIsAValue) {
  AddFloats("w", {2, 3}, {1, 2, 3, 4, 5, 6}, /*trained=*/true);
  const auto part = known_.AddPart("w", 1);
  ASSERT_TRUE(part.ok());
  const KnownValue* const value = known_.Get(*part);
  ASSERT_NE(value, nullptr);
  EXPECT_TRUE(value->trained);
  EXPECT_EQ(value->tensor.span<float>()[0], 4);
  EXPECT_EQ(value->tensor.shape(), Shape({3}));
  EXPECT_EQ(*known_.AddPart("w", 1), *part) << "the same part is the same value";
  EXPECT_EQ(known_.AddPart("computed", 0).status().code(), StatusCode::kUnimplemented);
}

TEST(AttributesTest, AnUnreadAttributeIsAnError) {
  ::onnx::NodeProto node;
  auto* axis = node.add_attribute();
  axis->set_name("axis");
  axis->set_i(2);
  const Attributes attributes(node);
  EXPECT_EQ(attributes.AllRead().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(attributes.Int("absent", 7), 7);
  EXPECT_EQ(attributes.AllRead().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(attributes.Only("axis", 1).code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(attributes.AllRead().ok());
}

}  // namespace
}  // namespace tandem::onnx
