// Tests ONNX nodes that are computed while a model is read, and patterns that exporters write
// around them: positions, masks, relative positions and shared weights of transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/onnx/hand_graph.h"
#include "tests/onnx/run_graph.h"

namespace tandem::onnx {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using Ints = std::vector<int64_t>;

// Adds a cast of `from` to `type` with the name `to`.
void Cast(HandGraph& graph, const std::string& from, const std::string& to, int64_t type) {
  NodeAttr(graph.Node("Cast", {from}, to), "to").set_i(type);
}

void Whole(HandGraph& graph, const std::string& name, int64_t value) {
  graph.Integers(name, {}, {value});
}

// Adds the sizes of "x" as single numbers "n" (the batch) and "width".
void Sizes(HandGraph& graph) {
  Whole(graph, "i0", 0);
  Whole(graph, "i1", 1);
  graph.Node("Shape", {"x"}, "shape");
  graph.Node("Gather", {"shape", "i0"}, "n");
  graph.Node("Gather", {"shape", "i1"}, "width");
}

// BERT cuts its positions from a table of integers of two dimensions.
TEST(OnnxKnownTables, PositionsAreCutFromATableOfIntegers) {
  HandGraph graph({3, 2});
  graph.Integers("all", {1, 5}, {4, 3, 2, 1, 0});
  graph.Numbers("w", {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  for (const auto& [name, value] : {std::pair("begin", 0), {"end", 3}, {"axis", 1}, {"step", 1}}) {
    graph.Constant(name, {value});
  }
  graph.Node("Slice", {"all", "begin", "end", "axis", "step"}, "some");  // 4, 3, 2
  graph.Integers("again", {1, 3}, {2, 0, 0});
  NodeAttr(graph.Node("GatherElements", {"some", "again"}, "ids"), "axis").set_i(1);  // 2, 4, 4
  graph.Node("Gather", {"w", "ids"}, "rows");
  graph.Node("Add", {"x", "rows"}, "y");
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, 2, &slopes),
              ElementsAre(5, 6, 9, 10, 9, 10, 6, 7, 10, 11, 10, 11));
  EXPECT_THAT(slopes, ElementsAre(0, 0, 0, 0, 2, 2, 0, 0, 4, 4));
}

// PyTorch makes the first states of a recurrent layer like this: the batch is the second dimension.
TEST(OnnxKnownTables, ConstantsAreRepeatedInTheMiddle) {
  HandGraph graph({1});
  Sizes(graph);
  graph.Constant("first", {0});
  graph.Constant("two", {2});
  graph.Node("Unsqueeze", {"n", "first"}, "n1");
  NodeAttr(graph.Node("Concat", {"two", "n1", "two"}, "sizes"), "axis").set_i(0);
  graph.Integers("numbers", {2, 1, 1}, {3, 5});
  Cast(graph, "numbers", "floats", ::onnx::TensorProto::FLOAT);
  graph.Node("Expand", {"floats", "sizes"}, "each");
  graph.Node("Neg", {"x"}, "less");
  graph.Node("Add", {"each", "less"}, "sum");
  graph.Weight("zero", {}, 0);
  graph.Node("Add", {"sum", "zero"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 2}, 2), ElementsAre(2, 2, 1, 1, 4, 4, 3, 3));
}

// The same rows of a table are repeated for each sample, as segment ids of BERT are.
TEST(OnnxKnownTables, IdsAreRepeatedForEachSample) {
  HandGraph graph({3, 1});
  graph.Numbers("w", {2, 1}, {10, 20});
  graph.Integers("ids", {1, 3}, {1, 0, 1});
  Sizes(graph);
  graph.Constant("first", {0});
  graph.Node("Unsqueeze", {"n", "first"}, "n1");
  graph.Node("Unsqueeze", {"width", "first"}, "width1");
  NodeAttr(graph.Node("Concat", {"n1", "width1"}, "sizes"), "axis").set_i(0);
  graph.Node("Expand", {"ids", "sizes"}, "each");
  graph.Node("Gather", {"w", "each"}, "rows");
  NodeAttr(graph.Node("Concat", {"rows", "x"}, "y"), "axis").set_i(2);
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {1, 2, 3, 4, 5, 6}, 2, &slopes),
              ElementsAre(20, 1, 10, 2, 20, 3, 20, 4, 10, 5, 20, 6));
  EXPECT_THAT(slopes, ElementsAre(2, 4));
}

// Builds the mask of a causal attention as transformers does: "x" [n, 3] has 1 for each word, and
// its numbers are read by the index sample * 3 + column. The scores are all 0.
HandGraph Masked() {
  HandGraph graph({3});
  Sizes(graph);
  Cast(graph, "x", "words", ::onnx::TensorProto::BOOL);
  graph.Node("Range", {"i0", "n", "i1"}, "samples");
  graph.Node("Range", {"i0", "width", "i1"}, "columns");
  graph.Constant("axes_sample", {1, 2, 3});
  graph.Constant("axes_row", {0, 1, 3});
  graph.Constant("axes_column", {0, 1, 2});
  graph.Node("Unsqueeze", {"samples", "axes_sample"}, "sample");
  graph.Node("Unsqueeze", {"columns", "axes_row"}, "row");
  graph.Node("Unsqueeze", {"columns", "axes_column"}, "column");
  graph.Node("LessOrEqual", {"column", "row"}, "causal");
  NodeAttr(graph.Node("Flatten", {"words"}, "flat"), "axis").set_i(2);
  graph.Node("Mul", {"sample", "width"}, "begin");
  graph.Node("Add", {"column", "begin"}, "index");
  graph.Node("Gather", {"flat", "index"}, "picked");
  graph.Node("Shape", {"index"}, "like");
  graph.Node("Reshape", {"picked", "like"}, "own");
  graph.Node("And", {"causal", "own"}, "mask");
  return graph;
}

TEST(OnnxKnownTables, MasksOfWordsAndOfTheFutureAreJoined) {
  HandGraph graph = Masked();
  graph.Weight("one", {}, 1);
  graph.Node("Mul", {"mask", "one"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 1, 0, 1, 7, -2}, 2),
              ElementsAre(1, 0, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1));
}

// The scores [n, 2 heads, 3, 3] get the mask of each sample. The test for NaN after the softmax is
// omitted.
TEST(OnnxKnownTables, MaskedScoresBecomeShares) {
  HandGraph graph = Masked();
  graph.Weight("zero", {}, 0);
  graph.Numbers("none", {}, {-INFINITY});
  graph.Node("Where", {"mask", "zero", "none"}, "hidden");
  graph.Weight("bias", {2, 1, 1}, 0.5f);
  graph.Node("Mul", {"mask", "zero"}, "scores");
  graph.Node("Add", {"scores", "bias"}, "heads");
  graph.Node("Add", {"heads", "hidden"}, "sum");
  NodeAttr(graph.Node("Softmax", {"sum"}, "share"), "axis").set_i(-1);
  graph.Node("IsNaN", {"share"}, "bad");
  graph.Node("Where", {"bad", "zero", "share"}, "shares");
  graph.Node("Add", {"shares", "zero"}, "y");
  const float third = 1.0f / 3;
  Floats want;
  for (const Floats& rows : {Floats{1, 0, 0, 0.5f, 0.5f, 0, 0.5f, 0.5f, 0},
                             Floats{1, 0, 0, 0.5f, 0.5f, 0, third, third, third}}) {
    for (int head = 0; head < 2; ++head) want.insert(want.end(), rows.begin(), rows.end());
  }
  EXPECT_THAT(OutputOf(graph, {1, 1, 0, 1, 1, 1}, 2), Pointwise(FloatNear(1e-6f), want));
  const auto import = graph.Import();
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_THAT(import->notes, ElementsAre(HasSubstr("a test for NaN is omitted; hint: give each")));
}

TEST(OnnxKnownTables, SamplesDoNotReadEachOther) {
  HandGraph graph = Masked();
  graph.Node("Add", {"begin", "i1"}, "next");
  graph.Node("Add", {"next", "next"}, "twice");
  graph.Node("Gather", {"flat", "twice"}, "y");
  EXPECT_THAT(graph.Refused(), HasSubstr("a sample selects numbers of other samples [TD1214]"));
}

// RoBERTa numbers the words that are no padding (0) from 2 on.
TEST(OnnxKnownTables, PositionsAreCounted) {
  HandGraph graph({4});
  graph.SetIntegers();
  Whole(graph, "pad", 0);
  Whole(graph, "axis", 1);
  Whole(graph, "first", 1);
  graph.Numbers("w", {6, 1}, {0, 10, 20, 30, 40, 50});
  graph.Node("Equal", {"x", "pad"}, "is");
  graph.Node("Not", {"is"}, "no");
  Cast(graph, "no", "word", ::onnx::TensorProto::INT32);
  graph.Node("CumSum", {"word", "axis"}, "count");
  Cast(graph, "count", "counted", ::onnx::TensorProto::INT32);
  graph.Integers("twos", {1, 4}, {2, 2, 2, 2});
  graph.Node("Mul", {"counted", "twos"}, "double");
  graph.Node("Sub", {"double", "counted"}, "single");
  graph.Node("Mul", {"single", "word"}, "own");
  Cast(graph, "own", "whole", ::onnx::TensorProto::INT64);
  graph.Node("Add", {"whole", "first"}, "ids");
  graph.Node("Gather", {"w", "ids"}, "y");
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {5, 0, 7, 9, 0, 0, 0, 3}, 2, &slopes),
              ElementsAre(20, 10, 30, 40, 10, 10, 10, 20));
  EXPECT_THAT(slopes, ElementsAre(0, 4, 2, 1, 1, 0));
}

// T5 looks a bias up by the logarithm of the distance. Rows are read more than once.
TEST(OnnxKnownTables, RelativePositionsHaveBuckets) {
  HandGraph graph({2, 3, 3});
  Sizes(graph);
  Whole(graph, "i3", 3);
  Whole(graph, "i2", 2);
  graph.Numbers("w", {3, 2}, {1, 10, 2, 20, 3, 30});
  graph.Node("Range", {"i0", "i3", "i1"}, "columns");
  graph.Constant("first", {0});
  graph.Constant("second", {1});
  graph.Node("Unsqueeze", {"columns", "first"}, "column");
  graph.Node("Unsqueeze", {"columns", "second"}, "row");
  graph.Node("Sub", {"column", "row"}, "distance");
  graph.Node("Abs", {"distance"}, "far");
  graph.Node("Add", {"far", "i1"}, "more");
  Cast(graph, "more", "number", ::onnx::TensorProto::FLOAT);
  graph.Node("Log", {"number"}, "log");
  graph.Weight("scale", {}, 2);
  graph.Node("Mul", {"log", "scale"}, "scaled");  // 0, 1.39 and 2.2
  Cast(graph, "scaled", "bucket", ::onnx::TensorProto::INT64);
  graph.Node("Min", {"bucket", "i2"}, "ids");
  graph.Node("Gather", {"w", "ids"}, "bias");
  SetInts(graph.Node("Transpose", {"bias"}, "heads"), "perm", {2, 0, 1});
  graph.Node("Unsqueeze", {"heads", "first"}, "all");
  graph.Node("Add", {"x", "all"}, "y");
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, Floats(18, 0), 1, &slopes),
              ElementsAre(1, 2, 3, 2, 1, 2, 3, 2, 1, 10, 20, 30, 20, 10, 20, 30, 20, 10));
  EXPECT_THAT(slopes, ElementsAre(3, 3, 4, 4, 2, 2));
}

// Swin numbers the regions of an image by writing into a constant.
TEST(OnnxKnownTables, RegionsAreWrittenIntoAConstant) {
  HandGraph graph({2, 2});
  graph.Constant("sizes", {2, 2});
  graph.Node("ConstantOfShape", {"sizes"}, "zeros");
  graph.Integers("at", {2, 1, 2}, {0, 1, 1, -1});
  graph.Numbers("new", {2, 1}, {5, 7});
  graph.Node("Identity", {"new"}, "numbers");
  graph.Node("ScatterND", {"zeros", "at", "numbers"}, "regions");
  graph.Node("Add", {"x", "regions"}, "y");
  EXPECT_THAT(graph.Refused(), HasSubstr("ScatterND"));  // "new" is a parameter
  HandGraph fixed({2, 2});
  fixed.Constant("sizes", {2, 2});
  fixed.Integers("at", {2, 1, 2}, {0, 1, 1, -1});
  fixed.Node("ConstantOfShape", {"sizes"}, "zeros");
  fixed.Integers("whole", {2, 1}, {5, 7});
  Cast(fixed, "whole", "numbers", ::onnx::TensorProto::FLOAT);
  fixed.Node("ScatterND", {"zeros", "at", "numbers"}, "regions");
  fixed.Node("Add", {"x", "regions"}, "y");
  EXPECT_THAT(OutputOf(fixed, {1, 1, 1, 1}), ElementsAre(1, 6, 1, 8));
}

TEST(OnnxKnownTables, SlicesMayHaveSteps) {
  HandGraph graph({3});
  graph.Integers("all", {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  graph.Constant("begin", {-1, 1});
  graph.Constant("end", {-100, 2});
  graph.Constant("axes", {1, 0});
  graph.Constant("steps", {-2, 1});
  graph.Node("Slice", {"all", "begin", "end", "axes", "steps"}, "some");  // 9, 7, 5
  Cast(graph, "some", "numbers", ::onnx::TensorProto::FLOAT);
  graph.Node("Mul", {"x", "numbers"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 1, 2}), ElementsAre(9, 7, 10));
}

// Swin takes every second line of an image.
TEST(OnnxKnownTables, ComputedNumbersMayHaveSteps) {
  HandGraph graph({6});
  graph.Weight("w", {6}, 1);
  graph.Node("Mul", {"x", "w"}, "s");
  graph.Constant("begin", {1});
  graph.Constant("end", {INT64_MAX});
  graph.Constant("axis", {1});
  graph.Constant("step", {2});
  graph.Node("Slice", {"s", "begin", "end", "axis", "step"}, "some");
  graph.Weight("zero", {}, 0);
  graph.Node("Add", {"some", "zero"}, "y");
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {1, 2, 3, 4, 5, 6}, 1, &slopes), ElementsAre(2, 4, 6));
  EXPECT_THAT(slopes, ElementsAre(0, 2, 0, 4, 0, 6));
  HandGraph odd({5});
  for (const auto& [name, value] : {std::pair("begin", 0), {"end", 5}, {"axis", 1}, {"step", 2}}) {
    odd.Constant(name, {value});
  }
  odd.Node("Slice", {"x", "begin", "end", "axis", "step"}, "y");
  EXPECT_THAT(odd.Refused(), HasSubstr("a slice of 5 elements with the step 2 is not supported"));
}

// RoBERTa reads the kinds of its words by the positions that it counts.
TEST(OnnxKnownTables, AListIsReadByComputedIndices) {
  HandGraph graph({3});
  graph.SetIntegers();
  graph.Integers("kinds", {1, 4}, {7, 5, 3, 1});
  Whole(graph, "zero", 0);
  Sizes(graph);
  graph.Constant("first", {0});
  graph.Constant("four", {4});
  graph.Node("Unsqueeze", {"n", "first"}, "n1");
  NodeAttr(graph.Node("Concat", {"n1", "four"}, "sizes"), "axis").set_i(0);
  graph.Node("Expand", {"kinds", "sizes"}, "each");
  NodeAttr(graph.Node("GatherElements", {"each", "x"}, "kind"), "axis").set_i(1);
  graph.Node("Add", {"kind", "zero"}, "y");
  EXPECT_THAT(OutputOf(graph, {0, 3, 1, 2, 2, 0}, 2), ElementsAre(7, 1, 5, 3, 3, 7));
}

// The weights of an embedding are also those of the output layer, transposed by a node.
TEST(OnnxShared, AnEmbeddingIsAlsoTheOutputLayer) {
  HandGraph graph({1});
  graph.SetIntegers();
  graph.Numbers("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  graph.Node("Gather", {"w", "x"}, "rows");
  SetInts(graph.Node("Transpose", {"w"}, "turned"), "perm", {1, 0});
  graph.Node("MatMul", {"rows", "turned"}, "y");
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {1}, 1, &slopes), ElementsAre(11, 25, 39));
  // The row 1 gets the sum of all rows, and each row gets row 1.
  EXPECT_THAT(slopes, ElementsAre(3, 4, 3 + 9, 4 + 12, 3, 4));
}

// The output layer may be a Gemm, and may precede the embedding in the file.
TEST(OnnxShared, TheOrderOfEmbeddingAndOutputLayerIsFree) {
  for (const bool first : {false, true}) {
    HandGraph graph({1});
    graph.SetIntegers();
    graph.Numbers("w", {3, 2}, {1, 2, 3, 4, 5, 6});
    graph.Numbers("ones", {1, 2}, {1, 1});
    Cast(graph, "x", "number", ::onnx::TensorProto::FLOAT);
    graph.Node("Mul", {"number", "ones"}, "pair");
    if (first) NodeAttr(graph.Node("Gemm", {"pair", "w"}, "layer"), "transB").set_i(1);
    graph.Node("Gather", {"w", "x"}, "rows");
    if (!first) NodeAttr(graph.Node("Gemm", {"pair", "w"}, "layer"), "transB").set_i(1);
    graph.Node("Flatten", {"rows"}, "row");
    NodeAttr(graph.Node("Concat", {"layer", "row"}, "y"), "axis").set_i(1);
    Floats slopes;
    EXPECT_THAT(OutputOf(graph, {2}, 1, &slopes), ElementsAre(6, 14, 22, 5, 6));
    // Each row gets the pair (2, 2), and the row 2 gets (1, 1) besides. The operator that is read
    // first decides the layout.
    const Floats rows = {2, 2, 2, 2, 3, 3}, turned = {2, 2, 3, 2, 2, 3};
    EXPECT_EQ(slopes, first ? turned : rows);
    const auto import = graph.Import();
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_THAT(import->program.VarsOf(graph::VarKind::kParam).size(), 2u);
  }
}

TEST(OnnxShared, ATransposedWeightHasNoOperator) {
  HandGraph graph({2});
  graph.Numbers("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  SetInts(graph.Node("Transpose", {"w"}, "turned"), "perm", {1, 0});
  graph.Node("MatMul", {"x", "turned"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 10}), ElementsAre(21, 43, 65));
  const auto import = graph.Import();
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_THAT(Types(import->program), ElementsAre("fc"));
}

TEST(OnnxShared, ConstantsAreNotTrained) {
  HandGraph graph({2});
  graph.Numbers("factor", {2}, {3, 4});
  graph.Numbers("w", {2}, {1, 2});
  graph.Node("Mul", {"x", "factor"}, "scaled");
  graph.Node("Add", {"scaled", "w"}, "y");
  for (const bool constant : {false, true}) {
    const auto import =
        graph.Import(ImportOptions::Loss::kNone, "",
                     constant ? std::set<std::string>{"factor"} : std::set<std::string>());
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_EQ(import->program.FindVar("factor")->kind,
              constant ? graph::VarKind::kState : graph::VarKind::kParam);
    EXPECT_EQ(import->program.FindVar("w")->kind, graph::VarKind::kParam);
  }
}

// Each input lacks dimensions of the other input.
TEST(OnnxBroadcast, BothInputsAreRepeated) {
  for (const char* type : {"Add", "Sub", "Mul", "Div"}) {
    for (const bool turned : {false, true}) {
      HandGraph graph({1, 3});
      graph.Numbers("w", {2, 1}, {1, 2});
      const std::vector<std::string> inputs = {turned ? "w" : "x", turned ? "x" : "w"};
      graph.Node(type, inputs, "result");
      graph.Weight("zero", {}, 0);
      graph.Node("Add", {"result", "zero"}, "y");
      if (turned && std::string(type) == "Div") continue;  // the larger input must have the batch
      const Floats x = {1, 2, 3, 4, 5, 6};
      Floats want;
      for (size_t sample = 0; sample < 2; ++sample) {
        for (const float w : {1.0f, 2.0f}) {
          for (size_t i = 0; i < 3; ++i) {
            const float v = x[sample * 3 + i];
            const float a = turned ? w : v, b = turned ? v : w;
            want.push_back(*type == 'A'   ? a + b
                           : *type == 'S' ? a - b
                           : *type == 'M' ? a * b
                                          : a / b);
          }
        }
      }
      EXPECT_THAT(OutputOf(graph, x, 2), ElementsAreArray(want)) << type << turned;
    }
  }
}

TEST(OnnxBroadcast, ExpandRepeatsComputedNumbers) {
  HandGraph graph({2, 1});
  graph.Weight("w", {2, 1}, 1);
  graph.Node("Mul", {"x", "w"}, "s");
  graph.Constant("sizes", {1, 2, 5});
  graph.Node("Expand", {"s", "sizes"}, "wide");
  graph.Weight("zero", {}, 0);
  graph.Node("Add", {"wide", "zero"}, "y");
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {3, 4}, 1, &slopes), ElementsAre(3, 3, 3, 3, 3, 4, 4, 4, 4, 4));
  EXPECT_THAT(slopes, ElementsAre(15, 20));
}

TEST(OnnxBroadcast, ExpandRefusesSizesThatAreNotPositive) {
  for (const int64_t size : {0, -2}) {
    HandGraph graph({2, 1});
    graph.Weight("w", {2, 1}, 1);
    graph.Node("Mul", {"x", "w"}, "s");
    graph.Constant("sizes", {1, 2, size});
    graph.Node("Expand", {"s", "sizes"}, "y");
    const auto import = graph.Import();
    EXPECT_EQ(import.status().code(), StatusCode::kInvalidArgument) << import.status();
    EXPECT_THAT(std::string(import.status().message()),
                HasSubstr(absl::StrFormat("size 2 of the shape is %d", size)));
  }
}

TEST(OnnxKnown, APermutationThatNamesNoDimensionIsRefused) {
  HandGraph graph({2});
  graph.Constant("sizes", {2, 2});
  graph.Node("ConstantOfShape", {"sizes"}, "zeros");
  SetInts(graph.Node("Transpose", {"zeros"}, "turned"), "perm", {1000000000, 0});
  graph.Node("Add", {"x", "turned"}, "y");
  EXPECT_THAT(graph.Refused(), HasSubstr("perm does not name each dimension once [TD2108]"));
}

TEST(OnnxKnown, AShapeWhoseNumberOfElementsOverflowsIsRefused) {
  HandGraph graph({2});
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = absl::StrFormat("part%d", i);
    Ints sizes = {1, 1, 1, 1};
    sizes[i] = 1 << 16;
    graph.Constant(name + ".sizes", sizes);
    graph.Node("ConstantOfShape", {name + ".sizes"}, name);
  }
  graph.Node("Max", {"part0", "part1", "part2", "part3"}, "largest");
  graph.Node("Add", {"x", "largest"}, "y");
  EXPECT_NE(graph.Refused(), "");
}

// T5's normalisation by the mean square, in which the reciprocal is 1 / sqrt.
TEST(OnnxNorms, OfTheMeanSquareByAQuotient) {
  HandGraph graph({3});
  graph.Weight("two", {}, 2);
  graph.Weight("one", {}, 1);
  graph.Weight("epsilon", {}, 0.5f);
  graph.Node("Pow", {"x", "two"}, "squares");
  SetInts(graph.Node("ReduceMean", {"squares"}, "mean"), "axes", {-1});
  graph.Node("Add", {"mean", "epsilon"}, "sum");
  graph.Node("Sqrt", {"sum"}, "root");
  graph.Node("Div", {"one", "root"}, "inverse");
  graph.Node("Mul", {"x", "inverse"}, "y");
  const float root = std::sqrt(21 / 3.0f + 0.5f);
  EXPECT_THAT(OutputOf(graph, {1, 2, -4}),
              Pointwise(FloatNear(1e-6f), Floats{1 / root, 2 / root, -4 / root}));
}

// The epsilon of torchvision's MobileNetV3 is the largest that batch_norm accepts.
TEST(OnnxNorms, AnEpsilonOfAThousandthIsRead) {
  HandGraph graph({2});
  for (const char* name : {"scale", "bias", "mean", "variance"}) graph.Weight(name, {2}, 1);
  ::onnx::NodeProto& node =
      graph.Node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, "y");
  NodeAttr(node, "epsilon").set_f(0.001f);
  const auto import = graph.Import();
  EXPECT_TRUE(import.ok()) << import.status();
}

TEST(OnnxKnownTables, BadNodesAreRefused) {
  const auto refused = [](const std::string& type, const std::vector<std::string>& inputs) {
    HandGraph graph({2});
    graph.Integers("a", {2, 3}, {0, 1, 2, 3, 4, 5});
    graph.Integers("b", {4}, {0, 1, 2, 9});
    graph.Integers("c", {1, 2}, {0, 9});
    graph.Node(type, inputs, "k");
    Cast(graph, "k", "f", ::onnx::TensorProto::FLOAT);
    graph.Node("Mul", {"x", "f"}, "y");
    return graph.Refused();
  };
  EXPECT_THAT(refused("Add", {"a", "b"}), HasSubstr("cannot be broadcast together [TD2108]"));
  EXPECT_THAT(refused("Add", {"a", ""}), HasSubstr("an input of the node is missing [TD2108]"));
  EXPECT_THAT(refused("Gather", {"a", "b"}), HasSubstr("element 2 does not exist"));
  EXPECT_THAT(refused("GatherElements", {"a", "c"}), HasSubstr("element 9 does not exist"));
  EXPECT_THAT(refused("Concat", {"a", "b"}), HasSubstr("the inputs differ in type or number"));
  EXPECT_THAT(refused("Range", {"a", "b"}), HasSubstr("the range needs three single numbers"));
  EXPECT_THAT(refused("ScatterND", {"a", "c", "b"}),
              HasSubstr("the indices and the new numbers differ in number"));
}

}  // namespace
}  // namespace tandem::onnx
