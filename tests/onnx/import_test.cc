// Tests the import of hand-written graphs that the exporters do not write in this form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "onnx/onnx.pb.h"
#include "tests/onnx/hand_graph.h"
#include "tests/support/temp_dir.h"
#include "trainer/onnx/import.h"

namespace tandem::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;
using Loss = ImportOptions::Loss;
using Graph = HandGraph;

// Gelu in the forms that torch.onnx, TensorFlow and Tandem write.
TEST(OnnxPatterns, GeluIsKnownHoweverItIsWritten) {
  const float half = 0.5f, one = 1, two = 2, root = std::sqrt(2.0f), inverse = 1 / root;
  const auto begin = [&](bool divides) {
    Graph graph({4});
    for (const auto& [name, value] : std::map<std::string, float>{
             {"half", half}, {"one", one}, {"two", two}, {"root", root}, {"inverse", inverse}}) {
      graph.Weight(name, {}, value);
    }
    graph.Node("Relu", {"x"}, "r");
    graph.Node(divides ? "Div" : "Mul", {"r", divides ? "root" : "inverse"}, "scaled");
    graph.Node("Erf", {"scaled"}, "erf");
    graph.Node("Add", {"one", "erf"}, "plus");
    return graph;
  };
  Graph late = begin(true), early = begin(false), first = begin(false), halved = begin(true);
  late.Node("Mul", {"r", "plus"}, "product");
  late.Node("Mul", {"product", "half"}, "y");
  early.Node("Mul", {"plus", "half"}, "product");
  early.Node("Mul", {"product", "r"}, "y");
  first.Node("Mul", {"half", "r"}, "product");
  first.Node("Mul", {"product", "plus"}, "y");
  halved.Node("Div", {"r", "two"}, "product");
  halved.Node("Mul", {"product", "plus"}, "y");
  for (const Graph& graph : {late, early, first, halved}) {
    const auto import = graph.Import();
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_THAT(Types(import->program), ElementsAre("relu", "gelu"));
    EXPECT_THAT(import->program.ops[1].inputs[0], ElementsAre("r"));
  }
  Graph other = begin(true);
  other.Node("Mul", {"plus", "half"}, "y");
  EXPECT_THAT(other.Refused(), HasSubstr("Erf \"\": Erf is supported only in a GELU"));
  Graph shared = begin(true);
  shared.Node("Mul", {"r", "plus"}, "product");
  shared.Node("Mul", {"product", "half"}, "y");
  shared.Node("Add", {"y", "erf"}, "z");
  EXPECT_THAT(shared.Refused(), HasSubstr("Erf \"\": Erf is supported only in a GELU"));
}

TEST(OnnxPatterns, LayerNormalisationIsKnown) {
  for (const char* square : {"Pow", "Mul"}) {
    Graph graph({3, 4});
    graph.Weight("two", {}, 2);
    graph.Weight("epsilon", {}, 0.25f);
    graph.Weight("gamma", {4}, 3);
    graph.Weight("beta", {4}, 5);
    SetInts(graph.Node("ReduceMean", {"x"}, "mean"), "axes", {-1});
    graph.Node("Sub", {"x", "mean"}, "c");
    graph.Node(square, {"c", std::string(square) == "Pow" ? "two" : "c"}, "squares");
    SetInts(graph.Node("ReduceMean", {"squares"}, "variance"), "axes", {-1});
    graph.Node("Add", {"variance", "epsilon"}, "sum");
    graph.Node("Sqrt", {"sum"}, "root");
    graph.Node("Div", {"c", "root"}, "normal");
    graph.Node("Mul", {"normal", "gamma"}, "scaled");
    graph.Node("Add", {"scaled", "beta"}, "y");
    const auto import = graph.Import();
    ASSERT_TRUE(import.ok()) << import.status();
    ASSERT_THAT(Types(import->program), ElementsAre("layer_norm"));
    const ops::Op& op = import->program.ops[0];
    EXPECT_THAT(op.inputs, ElementsAre(Strings{"x"}, Strings{"gamma"}, Strings{"beta"}));
    EXPECT_EQ(std::get<double>(op.attrs.at("epsilon")), 0.25);
    // This second reader of the mean requires that the mean stays in the graph.
    graph.Node("Sub", {"y", "mean"}, "z");
    const auto both = graph.Import();
    ASSERT_TRUE(both.ok()) << both.status();
    EXPECT_THAT(Types(both->program),
                ElementsAre("reduce_mean", "layer_norm", "reshape", "elementwise_sub"));
  }
  Graph root({4});
  root.Node("Sqrt", {"x"}, "y");
  EXPECT_THAT(root.Refused(), HasSubstr("Sqrt \"\": Sqrt is supported only in a normalisation"));
}

TEST(OnnxPow, SquaresAndCubes) {
  for (const auto& [power, types] : std::map<float, Strings>{
           {2, {"elementwise_mul"}}, {3, {"elementwise_mul", "elementwise_mul"}}}) {
    Graph graph({4});
    graph.Weight("power", {}, power);
    graph.Node("Pow", {"x", "power"}, "y");
    const auto import = graph.Import();
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_EQ(Types(import->program), types);
  }
  Graph root({4});
  root.Weight("power", {}, 0.5f);
  root.Node("Pow", {"x", "power"}, "y");
  EXPECT_THAT(root.Refused(), HasSubstr("the exponent of the power is 0.5, expected 2 or 3"));
}

TEST(OnnxBatchNorm, TheFormOfTrainingIsRefused) {
  Graph graph({2, 3, 4, 4});
  for (const char* name : {"scale", "bias", "mean", "variance"}) graph.Weight(name, {3}, 1);
  auto& node = graph.Node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, "y");
  NodeAttr(node, "training_mode").set_i(1);
  EXPECT_THAT(graph.Refused(), HasSubstr("[TD1216]; hint: export the model after model.eval()"));
}

// A mask of infinities must not become a trained parameter: training would change the mask, and
// masked values would become visible.
TEST(OnnxConstants, AMaskIsNotTrained) {
  Graph graph({4});
  graph.Weight("mask", {4}, -std::numeric_limits<float>::infinity());
  graph.Weight("bias", {4}, 1);
  graph.Node("Add", {"x", "bias"}, "b");
  graph.Node("Add", {"b", "mask"}, "y");
  const auto import = graph.Import();
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->program.FindVar("bias")->kind, graph::VarKind::kParam);
  EXPECT_EQ(import->program.FindVar("mask")->kind, graph::VarKind::kState);
}

// A loss over classes cannot replace a softmax over a dimension other than the last one.
TEST(OnnxLastSoftmax, IsOverTheLastDimensionAlone) {
  for (const char* type : {"Softmax", "LogSoftmax"}) {
    Graph segments({3, 8, 8});
    segments.Weight("filter", {3, 3, 1, 1}, 0.5f);
    segments.Node("Conv", {"x", "filter"}, "y");
    NodeAttr(segments.Node(type, {"y"}, "z"), "axis").set_i(1);
    EXPECT_THAT(segments.Refused(Loss::kSoftmax),
                HasSubstr("node 1, " + std::string(type) +
                          " \"\": axis = 1 is not supported for an input with 4 dimensions, "
                          "expected the last dimension [TD7015] (UNIMPLEMENTED)"));
    // Up to opset 12, the default axis is 1.
    Graph old({5, 4}, 12), young({5, 4}, 13);
    old.Node(type, {"x"}, "y");
    young.Node(type, {"x"}, "y");
    EXPECT_THAT(old.Refused(Loss::kSoftmax),
                HasSubstr("axis = 1 is not supported for an input with 3 dimensions"));
    EXPECT_TRUE(young.Import(Loss::kSoftmax).ok()) << young.Import(Loss::kSoftmax).status();
  }
}

TEST(OnnxLastSoftmax, IsReadLikeAnyNode) {
  Graph other({4});
  other.Node("Softmax", {"x"}, "y").set_domain("com.example");
  EXPECT_THAT(other.Refused(Loss::kSoftmax),
              HasSubstr("the operator domain \"com.example\" is not supported"));
  for (const auto& [type, loss] :
       std::map<std::string, Loss>{{"Softmax", Loss::kSoftmax}, {"Sigmoid", Loss::kSigmoid}}) {
    Graph odd({4});
    NodeAttr(odd.Node(type, {"x"}, "y"), "alpha").set_f(2);
    EXPECT_THAT(odd.Refused(loss), HasSubstr("attribute \"alpha\""));
  }
}

TEST(OnnxLastSoftmax, StaysWhereSomebodyElseReadsIt) {
  Graph graph({4});
  graph.Node("Relu", {"x"}, "logits");
  graph.Node("Softmax", {"logits"}, "chances");
  graph.Node("ReduceMax", {"chances"}, "largest");
  const auto import = graph.Import(Loss::kSoftmax, "chances");
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_THAT(Types(import->program),
              ElementsAre("relu", "softmax", "reduce_max", "softmax_with_cross_entropy", "mean",
                          "accuracy"));
  EXPECT_EQ(import->program.ops[3].inputs[0][0], "logits");
}

// Returns a graph in which "t" has the shape [4,N,6].
Graph Turned() {
  Graph graph({4, 6});
  SetInts(graph.Node("Transpose", {"x"}, "t"), "perm", {1, 0, 2});
  return graph;
}

Shape ShapeFor(const StatusOr<ImportedModel>& import, int64_t batch, const std::string& var) {
  EXPECT_TRUE(import.ok()) << import.status();
  if (!import.ok()) return {};
  graph::Program program = import->program;
  EXPECT_TRUE(graph::BindBatch(program, batch).ok());
  return program.FindVar(var)->desc.shape;
}

TEST(OnnxBatch, MayBeAnyDimension) {
  Graph flat = Turned();
  flat.Node("Flatten", {"t"}, "y");
  EXPECT_EQ(ShapeFor(flat.Import(), 5, "y"), Shape({4, 30}));
  Graph product = Turned();
  product.Weight("w", {6, 2}, 0.5f);
  product.Node("MatMul", {"t", "w"}, "y");
  EXPECT_EQ(ShapeFor(product.Import(), 5, "y"), Shape({4, 5, 2}));
  Graph chosen = Turned();
  ::onnx::TensorProto one;
  one.set_data_type(::onnx::TensorProto::INT64);
  one.add_int64_data(-1);
  *NodeAttr(chosen.Node("Constant", {}, "one"), "value").mutable_t() = one;
  NodeAttr(chosen.Node("Gather", {"t", "one"}, "y"), "axis").set_i(0);
  EXPECT_EQ(ShapeFor(chosen.Import(), 5, "y"), Shape({5, 6}));
}

// The batch size must not become an attribute of an operator: the attribute would fix the batch
// size of the program.
TEST(OnnxBatch, IsNoSizeThatStays) {
  Graph torn = Turned();
  torn.Constant("one", {1});
  torn.Constant("rest", {-1});
  torn.Node("Shape", {"t"}, "sizes");
  torn.Node("Gather", {"sizes", "one"}, "batch");
  torn.Node("Concat", {"batch", "rest"}, "flat");
  torn.Node("Reshape", {"t", "flat"}, "y");
  EXPECT_THAT(torn.Refused(), HasSubstr("node 4, Reshape \"\": the reshape would put numbers of "
                                        "two samples into one row [TD1214] (UNIMPLEMENTED)"));
  Graph kept({3});
  kept.Constant("two", {2});
  kept.Weight("w", {4}, 1);
  NodeAttr(kept.Node("Shape", {"x"}, "batch"), "end").set_i(1);
  kept.Node("Concat", {"batch", "two"}, "sizes");
  kept.Node("Reshape", {"w", "sizes"}, "y");
  EXPECT_THAT(kept.Refused(), HasSubstr("only one of \"w\" and its reshaped result depends on the "
                                        "batch, expected both or neither [TD1214]"));
  Graph constant({3});
  constant.Weight("bias", {2, 3}, 1.0f);
  constant.Node("Add", {"x", "bias"}, "y");
  EXPECT_THAT(constant.Refused(), HasSubstr("the operator accepts batch size 2, but not 3"));
  Graph label = Turned();
  label.Node("Relu", {"t"}, "y");
  EXPECT_THAT(label.Refused(Loss::kSoftmax), HasSubstr("its first dimension is not the batch"));
}

TEST(OnnxBatch, MayBeTurnedThereAndBack) {
  Graph graph({4, 6});
  SetInts(graph.Node("Transpose", {"x"}, "t"), "perm", {1, 0, 2});
  graph.Node("Relu", {"t"}, "r");
  SetInts(graph.Node("Transpose", {"r"}, "y"), "perm", {1, 0, 2});
  auto import = graph.Import(Loss::kSoftmax);
  ASSERT_TRUE(import.ok()) << import.status();
  ASSERT_TRUE(graph::BindBatch(import->program, 5).ok());
  EXPECT_EQ(import->program.FindVar("y")->desc.shape, Shape({5, 4, 6}));
  EXPECT_EQ(import->program.FindVar("label")->desc.shape, Shape({5, 4}));
}

// A tensor [N,1,1] is broadcast to [N,4,3]. The result keeps N as its batch dimension.
TEST(OnnxBatch, IsFollowedWhereShapesMeet) {
  Graph graph({4, 3});
  SetInts(graph.Node("ReduceMax", {"x"}, "m"), "axes", {1, 2});
  graph.Node("Mul", {"x", "m"}, "y");
  auto import = graph.Import();
  ASSERT_TRUE(import.ok()) << import.status();
  ASSERT_TRUE(graph::BindBatch(import->program, 7).ok());
  EXPECT_EQ(import->program.FindVar("y")->desc.shape, Shape({7, 4, 3}));
}

// Tests x.view(x.size(0), -1) in a model for any batch size and in a model for one batch size.
TEST(OnnxBatch, StaysInViews) {
  Graph any({4, 6}), single({4, 6});
  any.Constant("zero", {0});
  any.Constant("rest", {-1});
  any.Node("Shape", {"x"}, "sizes");
  any.Node("Gather", {"sizes", "zero"}, "batch");
  any.Node("Concat", {"batch", "rest"}, "flat");
  any.Node("Reshape", {"x", "flat"}, "y");
  single.SetBatch(1);
  single.Constant("flat", {1, -1});
  single.Node("Reshape", {"x", "flat"}, "y");
  for (const Graph& graph : {any, single}) {
    auto import = graph.Import();
    ASSERT_TRUE(import.ok()) << import.status();
    ASSERT_TRUE(graph::BindBatch(import->program, 5).ok());
    EXPECT_EQ(import->program.FindVar("y")->desc.shape, Shape({5, 24}));
  }
}

// A view of [N,4,6] as rows [N*4,6]: the first dimension is a multiple of the batch size.
TEST(OnnxBatch, AMultipleOfItIsOneToo) {
  Graph graph({4, 6});
  graph.Constant("rows", {-1, 6});
  graph.Constant("zero", {0});
  graph.Constant("back", {-1, 3});
  graph.Node("Reshape", {"x", "rows"}, "r");
  graph.Node("Shape", {"r"}, "sizes");
  graph.Node("Gather", {"sizes", "zero"}, "first");
  graph.Node("Concat", {"first", "back"}, "view");
  graph.Node("Reshape", {"x", "view"}, "y");
  EXPECT_EQ(ShapeFor(graph.Import(), 5, "y"), Shape({20, 2, 3}));
}

TEST(OnnxBatch, IsNotGuessed) {
  Graph graph({3});
  graph.SetBatch(4);
  graph.Constant("sizes", {3, 4});
  graph.Node("Reshape", {"x", "sizes"}, "y");
  EXPECT_THAT(
      graph.Refused(),
      HasSubstr(
          "exported for batch size 4: no dimension is a multiple of the batch size [TD1214]"));
}

// PyTorch's exporter writes allowzero = 1 at every Reshape. The import must accept allowzero = 1 if
// no size is 0.
TEST(OnnxReshape, AllowZeroMattersWhereASizeIsZero) {
  for (const int64_t rows : {int64_t{4}, int64_t{0}}) {
    Graph graph({4, 6});
    graph.Constant("sizes", {-1, rows, 6});
    NodeAttr(graph.Node("Reshape", {"x", "sizes"}, "y"), "allowzero").set_i(1);
    if (rows == 0) {
      EXPECT_THAT(graph.Refused(), HasSubstr("allowzero = 1 with the shape [-1,0,6]"));
      EXPECT_THAT(graph.Refused(), HasSubstr("[TD1213]"));
    } else {
      EXPECT_EQ(ShapeFor(graph.Import(), 5, "y"), Shape({5, 4, 6}));
    }
  }
}

// Tests a model that was exported for the batch size 2. Dimensions that do not depend on the batch
// are also 2 or multiples of 2.
TEST(OnnxBatch, IsFoundInAModelOfOneBatch) {
  Graph graph({2, 4});
  graph.SetBatch(2);
  graph.Constant("rows", {4, 4});
  graph.Constant("back", {2, 2, 2, 2});
  graph.Node("Reshape", {"x", "rows"}, "r");
  SetInts(graph.Node("Transpose", {"r"}, "t"), "perm", {1, 0});
  graph.Node("Reshape", {"t", "back"}, "y");
  const auto import = graph.Import();
  EXPECT_EQ(ShapeFor(import, 5, "r"), Shape({10, 4}));
  EXPECT_EQ(ShapeFor(import, 5, "y"), Shape({2, 2, 5, 2}));
}

TEST(OnnxShape, HasABeginningAndAnEnd) {
  Graph graph({4, 6});
  ::onnx::NodeProto& shape = graph.Node("Shape", {"x"}, "sizes");
  NodeAttr(shape, "start").set_i(-3);
  NodeAttr(shape, "end").set_i(1);
  SetInts(graph.Node("Constant", {}, "rest"), "value_ints", {-1});
  NodeAttr(graph.Node("Constant", {}, "two"), "value_int").set_i(2);
  graph.Node("Concat", {"sizes", "two", "rest"}, "wanted");
  graph.Node("Reshape", {"x", "wanted"}, "y");
  EXPECT_EQ(ShapeFor(graph.Import(), 5, "y"), Shape({5, 2, 12}));
}

// The exporter stores parameters with equal values once, for example the scales of untrained
// normalisations. Each use must become a separate parameter.
TEST(OnnxConstants, EachUseOfEqualNumbersIsAVariable) {
  Graph graph({4});
  graph.Weight("scale", {4}, 1);
  graph.Node("Mul", {"x", "scale"}, "a");
  graph.Node("Mul", {"a", "scale"}, "y");
  const auto import = graph.Import();
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->program.VarsOf(graph::VarKind::kParam).size(), 2u);
}

// Writes a directory with the file "m.data" of 25 floats: -1, then 0 to 23 in ascending order.
class OnnxExternal : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<float> numbers(25, -1);
    for (size_t i = 0; i < 24; ++i) numbers[i + 1] = static_cast<float>(i);
    std::ofstream(file_.string(), std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()), 100);
  }
  std::string Refused(const std::string& location, const std::string& offset = "0",
                      const std::string& length = "96") {
    Graph graph({6});
    graph.External(dir_.path(), location, offset, length);
    return graph.Refused();
  }

  TempDir dir_;
  const std::filesystem::path file_ = std::filesystem::path(dir_.path()) / "m.data";
};

TEST_F(OnnxExternal, NumbersAreReadFromAFileBesideTheModel) {
  Graph graph({6});
  graph.External(dir_.path(), "m.data", "4");
  const auto import = graph.Import();
  ASSERT_TRUE(import.ok()) << import.status();
  const Tensor& tensor = import->tensors.at("w");
  EXPECT_EQ(tensor.shape(), Shape({6, 4}));
  EXPECT_EQ(tensor.span<float>()[23], 23);
}

TEST_F(OnnxExternal, AModelReadsNoOtherFiles) {
  for (const std::string name :
       {"../m.data", "/etc/hostname", "..", ".", "", "a/m.data", "a\\m.data"}) {
    EXPECT_THAT(Refused(name), HasSubstr("expected the plain name of a file")) << name;
    EXPECT_THAT(Refused(name), HasSubstr("[TD1211]")) << name;
  }
  std::filesystem::create_symlink(file_, std::filesystem::path(dir_.path()) / "link");
  EXPECT_THAT(Refused("link"), HasSubstr("is a link, expected a regular file [TD1211]"));
  std::filesystem::create_directory(std::filesystem::path(dir_.path()) / "folder");
  EXPECT_THAT(Refused("folder"), HasSubstr("is not a regular file [TD1211]"));
  EXPECT_THAT(Refused("none"), HasSubstr("[TD2106] (NOT_FOUND)"));
}

TEST_F(OnnxExternal, NumbersLieWithinTheFile) {
  EXPECT_THAT(Refused("m.data", "8"),
              HasSubstr("has 100 bytes, but the tensor needs 96 bytes from byte 8"));
  EXPECT_THAT(Refused("m.data", "18446744073709551615"), HasSubstr("[TD1212]"));
  EXPECT_THAT(Refused("m.data", "-1"), HasSubstr("expected a number of bytes [TD1212]"));
  EXPECT_THAT(Refused("m.data", "0", "100"),
              HasSubstr("length is 100 bytes, but the tensor needs 96 bytes"));
  Graph twice({6});
  twice.External(dir_.path(), "m.data");
  twice.External(dir_.path(), "m.data");
  EXPECT_THAT(twice.Refused(), HasSubstr("need more than the 100 bytes of the file [TD1212]"));
}

}  // namespace
}  // namespace tandem::onnx
