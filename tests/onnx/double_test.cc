// Tests numbers of type DOUBLE, which PyTorch writes for the scale of an attention: where they are
// known, they are computed in 64 bits, and programs get them as f32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/onnx/hand_graph.h"
#include "tests/onnx/run_graph.h"
#include "tests/support/temp_dir.h"

namespace tandem::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Proto = ::onnx::TensorProto;

constexpr double kLarge = 1 << 24;  // f32 lacks kLarge + 1

void Cast(HandGraph& graph, const std::string& from, const std::string& to, int64_t type) {
  NodeAttr(graph.Node("Cast", {from}, to), "to").set_i(type);
}

// Adds the DOUBLE `from` to "x" as f32. The result is "y".
void AddToX(HandGraph& graph, const std::string& from) {
  Cast(graph, from, "small", Proto::FLOAT);
  graph.Node("Add", {"x", "small"}, "y");
}

// PyTorch's attention multiplies queries and keys by the root of a constant. The root in 32 bits is
// another number.
TEST(OnnxDouble, TheRootOfAConstantIsRoundedOnce) {
  HandGraph graph({1});
  auto& constant = *NodeAttr(graph.Node("Constant", {}, "scale"), "value").mutable_t();
  constant.set_data_type(Proto::DOUBLE);
  constant.add_double_data(0.9);
  graph.Node("Sqrt", {"scale"}, "root");
  Cast(graph, "root", "factor", Proto::FLOAT);
  graph.Node("Mul", {"x", "factor"}, "y");
  const auto root = static_cast<float>(std::sqrt(0.9));
  ASSERT_NE(root, std::sqrt(0.9f));
  EXPECT_THAT(OutputOf(graph, {1}), ElementsAre(root));
}

TEST(OnnxDouble, SizesAreComputedIn64Bits) {
  HandGraph graph({1});
  graph.Doubles("share", {}, {0.29});
  graph.Constant("hundred", {100});
  Cast(graph, "hundred", "wide", Proto::DOUBLE);
  graph.Node("Mul", {"share", "wide"}, "product");
  Cast(graph, "product", "whole", Proto::INT64);
  AddToX(graph, "whole");
  EXPECT_THAT(OutputOf(graph, {0}), ElementsAre(28));  // 29 in 32 bits
}

// Nodes that move, compare or choose numbers keep the digits that f32 lacks.
TEST(OnnxDouble, NodesKeepAllDigits) {
  HandGraph graph({1});
  graph.Doubles("given", {1}, {kLarge + 1});
  graph.Doubles("b", {1}, {kLarge});
  graph.Constant("one", {1});
  graph.Weight("exponent", {}, 1);
  graph.Node("Pow", {"given", "exponent"}, "a");
  graph.Constant("sizes", {1, 2});
  NodeAttr(graph.Node("Concat", {"b", "a"}, "both"), "axis").set_i(0);
  graph.Node("Reshape", {"both", "sizes"}, "row");
  graph.Node("Transpose", {"row"}, "column");
  graph.Node("Gather", {"column", "one"}, "cell");
  graph.Node("Expand", {"cell", "sizes"}, "wide");
  graph.Node("Greater", {"wide", "b"}, "more");
  graph.Node("Where", {"more", "wide", "b"}, "chosen");
  graph.Node("Sub", {"chosen", "b"}, "rest");
  AddToX(graph, "rest");
  EXPECT_THAT(OutputOf(graph, {0}), ElementsAre(1, 1));
}

TEST(OnnxDouble, AConstantOfAShapeIsWide) {
  HandGraph graph({2});
  graph.Constant("sizes", {2});
  auto& value = *NodeAttr(graph.Node("ConstantOfShape", {"sizes"}, "many"), "value").mutable_t();
  value.set_data_type(Proto::DOUBLE);
  value.add_dims(1);
  value.add_double_data(kLarge + 1);
  graph.Doubles("b", {}, {kLarge});
  graph.Node("Sub", {"many", "b"}, "rest");
  AddToX(graph, "rest");
  EXPECT_THAT(OutputOf(graph, {0, 5}), ElementsAre(1, 6));
}

// The exponent of a power may be a DOUBLE. The result has the type of the base.
TEST(OnnxDouble, FloatsAreRoundedAfterEachNode) {
  HandGraph graph({1});
  graph.Weight("a", {}, static_cast<float>(kLarge));
  graph.Weight("one", {}, 1);
  graph.Doubles("exponent", {}, {1});
  graph.Node("Add", {"a", "one"}, "sum");
  graph.Node("Pow", {"sum", "exponent"}, "power");
  graph.Node("Add", {"power", "one"}, "more");
  graph.Node("Sub", {"more", "a"}, "rest");
  graph.Node("Add", {"x", "rest"}, "y");
  EXPECT_THAT(OutputOf(graph, {0}), ElementsAre(0));
}

// A weight of type DOUBLE is a parameter of type f32. A single number is a factor.
TEST(OnnxDouble, AWeightIsTrained) {
  for (const bool cast : {false, true}) {
    HandGraph graph({2});
    graph.Doubles("w", {2, 1}, {3, 5});
    graph.Doubles("factor", {1}, {2});
    if (cast) Cast(graph, "w", "weight", Proto::FLOAT);
    if (cast) Cast(graph, "factor", "times", Proto::FLOAT);
    graph.Node("MatMul", {"x", cast ? "weight" : "w"}, "product");
    graph.Node("Mul", {"product", cast ? "times" : "factor"}, "y");
    Floats slopes;
    EXPECT_THAT(OutputOf(graph, {1, 10}, 1, &slopes), ElementsAre(106));
    EXPECT_THAT(slopes, ElementsAre(2, 20));
    const auto import = graph.Import();
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_THAT(import->program.VarsOf(graph::VarKind::kParam).size(), 1u);
  }
}

TEST(OnnxDouble, RawAndExternalNumbersAreRead) {
  std::vector<double> numbers(24);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.1 * static_cast<double>(i);
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), 192);
  const TempDir dir;
  std::ofstream(dir.path() + "/m.data", std::ios::binary) << "12345678" << bytes;
  for (const bool beside : {false, true}) {
    HandGraph graph({6});
    if (beside) {
      graph.External(dir.path(), "m.data", "8", "192").set_data_type(Proto::DOUBLE);
    } else {
      graph.Doubles("w", {6, 4}, {}).set_raw_data(bytes);
      graph.Node("MatMul", {"x", "w"}, "y");
    }
    EXPECT_THAT(OutputOf(graph, {0, 1, 0, 0, 0, 0}), ElementsAre(0.4f, 0.5f, 0.6f, 0.7f)) << beside;
  }
}

TEST(OnnxDouble, AnInfinityStaysOne) {
  HandGraph graph({2});
  graph.Doubles("mask", {2}, {-std::numeric_limits<double>::infinity(), 0});
  graph.Node("Add", {"x", "mask"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 2}), ElementsAre(-std::numeric_limits<float>::infinity(), 2));
}

TEST(OnnxDouble, NumbersBeyondF32AreRefused) {
  HandGraph given({1});
  given.Doubles("far", {2}, {1, -1e300});
  given.Node("Add", {"x", "far"}, "y");
  EXPECT_THAT(
      given.Refused(),
      HasSubstr("m.onnx: tensor \"far\": the number -1e+300 of type DOUBLE is beyond the "
                "range of f32, in which programs compute [TD7015]; hint: use a number of at "
                "most 3.4e38"));
  HandGraph computed({1});
  computed.Doubles("a", {}, {1e30});
  computed.Node("Mul", {"a", "a"}, "square");
  AddToX(computed, "square");
  EXPECT_THAT(computed.Refused(),
              HasSubstr("node 0, Mul \"\": the number 1e+60 of type DOUBLE is beyond"));
}

TEST(OnnxDouble, ComputedNumbersAreRefused) {
  const char* const message = "a cast to DOUBLE is supported only for known numbers";
  HandGraph cast({1});
  Cast(cast, "x", "y", Proto::DOUBLE);
  EXPECT_THAT(cast.Refused(), HasSubstr(message));
  HandGraph like({1});
  like.Doubles("a", {}, {1});
  like.Node("CastLike", {"x", "a"}, "y");
  EXPECT_THAT(like.Refused(), HasSubstr(message));
  HandGraph input({1});
  input.SetType(Proto::DOUBLE);
  input.Node("Relu", {"x"}, "y");
  EXPECT_THAT(input.Refused(),
              HasSubstr("input \"x\" has the element type DOUBLE, but programs compute in f32 "
                        "[TD7015]; hint: export model.float() with float32 inputs"));
}

TEST(OnnxDouble, DamagedSizesAreRefused) {
  const auto refused = [](const std::vector<int64_t>& dims, size_t numbers, size_t bytes) {
    HandGraph graph({2});
    Proto& tensor = graph.Doubles("w", dims, std::vector<double>(numbers, 1));
    if (bytes > 0) tensor.set_raw_data(std::string(bytes, 'a'));
    graph.Node("Add", {"x", "w"}, "y");
    return graph.Refused();
  };
  const char* const lacks = "a tensor of shape [2] needs 16 bytes, but the file has fewer [TD2108]";
  for (const size_t numbers : {0, 1, 3}) {
    EXPECT_THAT(refused({2}, numbers, 0), HasSubstr(lacks)) << numbers;
  }
  for (const size_t bytes : {1, 8, 15, 17, 24}) {
    EXPECT_THAT(refused({2}, 0, bytes), HasSubstr(lacks)) << bytes;
  }
  EXPECT_THAT(refused({int64_t{1} << 40}, 1, 0), HasSubstr("but the file has fewer [TD2108]"));
  EXPECT_THAT(refused({-1}, 1, 0), HasSubstr("TD"));
}

}  // namespace
}  // namespace tandem::onnx
