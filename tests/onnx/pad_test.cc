// Tests Pad and Tile: lines of a number around an image, repeated lines, repeated tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/onnx/hand_graph.h"
#include "tests/onnx/run_graph.h"

namespace tandem::onnx {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

// Returns a graph in which "s" [N,2,3] is "x" [N,2,3] plus the parameter "w" of zeros.
HandGraph Image(int64_t opset = 13) {
  HandGraph graph({2, 3}, opset);
  graph.Weight("w", {2, 3}, 0);
  graph.Node("Add", {"x", "w"}, "s");
  return graph;
}

// Runs the graph, whose last node has the result "p".
Floats ResultOf(HandGraph graph, const Floats& x, int64_t batch = 1, Floats* slopes = nullptr) {
  graph.Weight("zero", {}, 0);
  graph.Node("Add", {"p", "zero"}, "y");
  return OutputOf(graph, x, batch, slopes);
}

const Floats kImage = {1, 2, 3, 4, 5, 6};

TEST(OnnxPad, LinesOfANumberSurroundTheImage) {
  HandGraph graph = Image();
  graph.Constant("pads", {0, 1, 2, 0, 0, 1});
  graph.Weight("number", {}, 7);
  graph.Node("Pad", {"s", "pads", "number"}, "p");
  Floats slopes;
  EXPECT_THAT(ResultOf(graph, kImage, 1, &slopes), ElementsAreArray({7, 7, 7, 7, 7, 7,  //
                                                                     7, 7, 1, 2, 3, 7,  //
                                                                     7, 7, 4, 5, 6, 7}));
  EXPECT_THAT(slopes, ElementsAre(1, 1, 1, 1, 1, 1));
}

// The lines along one dimension contain the corners of the lines along the other one.
TEST(OnnxPad, InfinitiesSurroundTheImage) {
  const float low = -std::numeric_limits<float>::infinity();
  HandGraph graph = Image();
  graph.Constant("pads", {0, 1, 1, 0, 1, 0});
  graph.Weight("number", {}, low);
  graph.Node("Pad", {"s", "pads", "number"}, "p");
  const float high = -low;
  EXPECT_THAT(ResultOf(graph, {1, 2, high, 4, 5, 6}), ElementsAreArray({low, low, low, low,   //
                                                                        low, 1.f, 2.f, high,  //
                                                                        low, 4.f, 5.f, 6.f,   //
                                                                        low, low, low, low}));
}

// A number of the image that equals that of the line gets no gradient from the line.
TEST(OnnxPad, LinesHaveNoGradient) {
  HandGraph graph = Image();
  graph.Constant("pads", {0, 1, 0, 0, 1, 0});
  graph.Node("Pad", {"s", "pads"}, "p");
  Floats slopes;
  EXPECT_THAT(ResultOf(graph, {0, 0, 0, 0, 0, 0}, 1, &slopes), ElementsAreArray(Floats(12)));
  EXPECT_THAT(slopes, ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(OnnxPad, EachSampleIsPadded) {
  HandGraph graph = Image();
  graph.Constant("pads", {0, 0, 0, 0, 0, 1});
  graph.Node("Pad", {"s", "pads"}, "p");
  EXPECT_THAT(ResultOf(graph, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 2),
              ElementsAre(1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 9, 0, 10, 11, 12, 0));
}

// A pad may have more lines than the image.
TEST(OnnxPad, EdgesAreRepeated) {
  HandGraph graph = Image();
  graph.Constant("pads", {0, 0, 3, 0, 1, 1});
  NodeAttr(graph.Node("Pad", {"s", "pads"}, "p"), "mode").set_s("edge");
  Floats slopes;
  EXPECT_THAT(ResultOf(graph, kImage, 1, &slopes), ElementsAreArray({1, 1, 1, 1, 2, 3, 3,  //
                                                                     4, 4, 4, 4, 5, 6, 6,  //
                                                                     4, 4, 4, 4, 5, 6, 6}));
  EXPECT_THAT(slopes, ElementsAre(4, 1, 2, 8, 2, 4));
}

TEST(OnnxPad, AxesMayBeNamed) {
  HandGraph graph = Image(18);
  graph.Constant("pads", {1, 0});
  graph.Constant("axes", {-1});
  graph.Node("Pad", {"s", "pads", "", "axes"}, "p");
  EXPECT_THAT(ResultOf(graph, kImage), ElementsAre(0, 1, 2, 3, 0, 4, 5, 6));
}

TEST(OnnxPad, AttributesOfOldOpsetsAreRead) {
  HandGraph graph = Image(10);
  ::onnx::NodeProto& node = graph.Node("Pad", {"s"}, "p");
  SetInts(node, "pads", {0, 0, 1, 0, 0, 0});
  NodeAttr(node, "value").set_f(9);
  EXPECT_THAT(ResultOf(graph, kImage), ElementsAre(9, 1, 2, 3, 9, 4, 5, 6));
}

TEST(OnnxPad, OtherFormsAreRefused) {
  const auto refused = [](const Ints& pads, const char* mode, const char* number = "") {
    HandGraph graph = Image();
    graph.Constant("pads", pads);
    graph.Node("ReduceMean", {"s"}, "mean");
    NodeAttr(graph.Node("Pad", {"s", "pads", number}, "y"), "mode").set_s(mode);
    return graph.Refused();
  };
  EXPECT_THAT(refused({0, 0, 1, 0, 0, 1}, "reflect"),
              HasSubstr("node 2, Pad \"\": the mode \"reflect\" of a pad is not supported, "
                        "expected constant or edge [TD7015]; hint: use nn.ZeroPad2d"));
  EXPECT_THAT(refused({0, 0, 0, 0, 0, -1}, "constant"),
              HasSubstr("a pad of -1 is not supported, expected 0 to 65536 [TD7015]"));
  EXPECT_THAT(refused({0, 0, 0, 0, 0, int64_t{1} << 62}, "constant"), HasSubstr("[TD7015]"));
  EXPECT_THAT(refused({1, 0, 0, 0, 0, 0}, "constant"),
              HasSubstr("the batch, dimension 0, cannot be padded [TD1214]"));
  EXPECT_THAT(refused({0, 1}, "constant"), HasSubstr("has 2 pads, expected 6 [TD2108]"));
  EXPECT_THAT(refused({0, 0, 1, 0, 0, 1}, "constant", "mean"),
              HasSubstr("the number of the pad is computed by a node"));
  HandGraph integers({2});
  integers.SetIntegers();
  integers.Constant("pads", {0, 0, 0, 1});
  integers.Node("Pad", {"x", "pads"}, "y");
  EXPECT_THAT(integers.Refused(), HasSubstr("a pad of integers is not supported [TD7015]"));
}

// GPT-J repeats the angles of its rotary positions like this.
TEST(OnnxTile, DimensionsAreRepeated) {
  HandGraph graph = Image();
  graph.Constant("times", {1, 3, 2});
  graph.Node("Tile", {"s", "times"}, "p");
  Floats want, slopes;
  for (int copy = 0; copy < 3; ++copy) {
    want.insert(want.end(), {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  }
  EXPECT_THAT(ResultOf(graph, kImage, 1, &slopes), ElementsAreArray(want));
  EXPECT_THAT(slopes, ElementsAre(6, 6, 6, 6, 6, 6));
}

TEST(OnnxTile, KnownIndicesAreRepeated) {
  HandGraph graph({4, 1});
  graph.Numbers("w", {2, 1}, {10, 20});
  graph.Integers("ids", {1, 2}, {1, 0});
  graph.Constant("times", {1, 2});
  graph.Node("Tile", {"ids", "times"}, "all");
  graph.Node("Gather", {"w", "all"}, "rows");
  graph.Node("Add", {"x", "rows"}, "y");
  EXPECT_THAT(OutputOf(graph, {0, 0, 0, 0}), ElementsAre(20, 10, 20, 10));
}

TEST(OnnxTile, OtherFormsAreRefused) {
  const auto refused = [](const Ints& times) {
    HandGraph graph = Image();
    graph.Constant("times", times);
    graph.Node("Tile", {"s", "times"}, "p");
    return graph.Refused();
  };
  EXPECT_THAT(refused({1, 0, 1}),
              HasSubstr("0 repetitions are not supported, expected 1 to 65536 [TD7015]"));
  EXPECT_THAT(refused({1, int64_t{1} << 60, 1}), HasSubstr("repetitions are not supported"));
  EXPECT_THAT(refused({2, 1, 1}), HasSubstr("the batch, dimension 0, cannot be repeated [TD1214]"));
  EXPECT_THAT(refused({1, 1}), HasSubstr("has 2 repetitions for 3 dimensions [TD2108]"));
}

// The number of elements would overflow.
TEST(OnnxTile, HugeResultsAreRefused) {
  const Ints ones(5, 1);
  HandGraph graph(ones);
  graph.Constant("times", {1, 65536, 65536, 65536, 65536, 65536});
  graph.Node("Tile", {"x", "times"}, "y");
  EXPECT_NE(graph.Refused(), "");
  HandGraph known({1});
  known.Integers("one", {1, 1, 1}, {1});
  known.Constant("times", {1 << 22, 1 << 22, 1 << 22});
  known.Node("Tile", {"one", "times"}, "many");
  known.Node("Add", {"x", "many"}, "y");
  EXPECT_NE(known.Refused(), "");
}

}  // namespace
}  // namespace tandem::onnx
