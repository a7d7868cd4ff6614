// Tests ONNX nodes that are imported as several operators: their results, and gradients for which
// an error is likely.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/onnx/hand_graph.h"
#include "tests/onnx/run_graph.h"

namespace tandem::onnx {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

struct Activation {
  const char* type;
  std::map<std::string, float> attrs;
  std::function<double(double)> value, slope;
};

TEST(OnnxActivations, HaveTheirNumbersAndSlopes) {
  const auto elu = [](double x, double a) { return x > 0 ? x : a * std::expm1(x); };
  const auto elu_slope = [](double x, double a) { return x > 0 ? 1 : a * std::exp(x); };
  const double alpha = 1.6732632423543772, gamma = 1.0507009873554805;
  const std::vector<Activation> cases = {
      {"Elu",
       {{"alpha", 0.7f}},
       [&](double x) { return elu(x, 0.7); },
       [&](double x) { return elu_slope(x, 0.7); }},
      {"Selu",
       {},
       [&](double x) { return gamma * elu(x, alpha); },
       [&](double x) { return gamma * elu_slope(x, alpha); }},
      {"Celu",
       {{"alpha", 1.5f}},
       [](double x) { return x > 0 ? x : 1.5 * std::expm1(x / 1.5); },
       [](double x) { return x > 0 ? 1 : std::exp(x / 1.5); }},
      {"Softplus",
       {},
       [](double x) { return std::log1p(std::exp(x)); },
       [](double x) { return 1 / (1 + std::exp(-x)); }},
  };
  const Floats x = {-30, -2, -1e-4f, 0, 1e-4f, 3, 30};
  for (const Activation& c : cases) {
    HandGraph graph = Shifted(static_cast<int64_t>(x.size()));
    ::onnx::NodeProto& node = graph.Node(c.type, {"s"}, "y");
    for (const auto& [name, value] : c.attrs) NodeAttr(node, name).set_f(value);
    Floats slopes;
    const Floats y = OutputOf(graph, x, 1, &slopes);
    ASSERT_EQ(y.size(), x.size()) << c.type;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], c.value(x[i]), 1e-6 * std::abs(c.value(x[i])) + 1e-12) << c.type << x[i];
      EXPECT_NEAR(slopes[i], c.slope(x[i]), 1e-6) << c.type << " at " << x[i];
    }
  }
}

TEST(OnnxActivations, PReluTrainsItsSlopes) {
  HandGraph graph({2, 2});
  graph.Weight("w", {2, 1}, -0.5f);
  graph.Weight("zero", {}, 0);
  graph.Node("PRelu", {"x", "w"}, "p");
  graph.Node("Add", {"p", "zero"}, "y");
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {1, -2, -3, 4}, 1, &slopes), ElementsAre(1, 1, 1.5f, 4));
  EXPECT_THAT(slopes, ElementsAre(-2, -3));
}

// Equal numbers are neither greater nor less than each other. A comparison propagates no gradient.
TEST(OnnxCompare, FloatsAreCompared) {
  const float above = std::nextafter(1.0f, 2.0f), below = std::nextafter(1.0f, 0.0f);
  const std::map<std::string, Floats> wanted = {{"Greater", {0, 1, 0, 0, 1}},
                                                {"GreaterOrEqual", {1, 1, 0, 0, 1}},
                                                {"Less", {0, 0, 1, 1, 0}},
                                                {"LessOrEqual", {1, 0, 1, 1, 0}},
                                                {"Equal", {1, 0, 0, 0, 0}}};
  for (const auto& [type, truths] : wanted) {
    HandGraph graph = Shifted(5);
    graph.Weight("one", {}, 1);
    graph.Weight("zero", {}, 0);
    graph.Node(type, {"s", "one"}, "is");
    graph.Node("Where", {"is", "s", "zero"}, "y");
    const Floats x = {1, above, below, -1e30f, 1e30f};
    Floats slopes;
    const Floats y = OutputOf(graph, x, 1, &slopes);
    ASSERT_EQ(y.size(), 5u) << type;
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(y[i], truths[i] * x[i]) << type << " at " << x[i];
    EXPECT_EQ(slopes, truths) << type;
  }
}

TEST(OnnxRows, AConvolutionOfOneDimension) {
  HandGraph graph({1, 4});
  graph.Weight("w", {1, 1, 2}, 3);
  graph.Weight("bias", {1}, 1);
  ::onnx::NodeProto& node = graph.Node("Conv", {"x", "w", "bias"}, "y");
  SetInts(node, "kernel_shape", {2});
  SetInts(node, "strides", {2});
  SetInts(node, "pads", {1, 1});
  Floats slopes;
  EXPECT_THAT(OutputOf(graph, {1, 2, 3, 4}, 1, &slopes), ElementsAre(4, 16, 13));
  // Gradient of the first element of w: 2 + 4. Gradient of the second element: 1 + 3.
  EXPECT_THAT(slopes, ElementsAre(6, 4));
}

TEST(OnnxRows, ATurnedConvolutionOfOneDimension) {
  HandGraph graph({1, 2});
  graph.Weight("w", {1, 1, 3}, 2);
  graph.Weight("bias", {1}, 1);
  ::onnx::NodeProto& node = graph.Node("ConvTranspose", {"x", "w", "bias"}, "y");
  SetInts(node, "strides", {2});
  SetInts(node, "output_padding", {1});
  EXPECT_THAT(OutputOf(graph, {1, 10}), ElementsAre(3, 3, 23, 21, 21, 1));
}

TEST(OnnxPads, MayDifferFromSideToSide) {
  HandGraph graph({1, 3});
  graph.Weight("w", {1, 1, 2}, 1);
  SetInts(graph.Node("Conv", {"x", "w"}, "y"), "pads", {0, 2});
  EXPECT_THAT(OutputOf(graph, {1, 2, 3}), ElementsAre(3, 5, 3, 0));
}

struct PoolCase {
  Ints kernel, strides, pads;  // one value per dimension
  bool ceil, with_pads;
};

// Computes pooling as ONNX and PyTorch define it, over an image of 5 x 6 pixels.
Floats PoolByHand(const PoolCase& c, const Floats& x, bool max) {
  const Ints size = {5, 6};
  std::array<int64_t, 2> count = {0, 0};
  for (size_t d = 0; d < count.size(); ++d) {
    const int64_t room = size[d] + c.pads[d] + c.pads[d + 2] - c.kernel[d];
    count[d] = room / c.strides[d] + 1;
    const bool more = c.ceil && room % c.strides[d] != 0;
    if (more && count[d] * c.strides[d] < size[d] + c.pads[d]) ++count[d];
  }
  Floats out;
  for (int64_t i = 0; i < count[0] * count[1]; ++i) {
    double sum = 0, number = 0;
    float largest = -1e30f;
    const int64_t top = i / count[1] * c.strides[0] - c.pads[0];
    const int64_t left = i % count[1] * c.strides[1] - c.pads[1];
    for (int64_t row = top; row < top + c.kernel[0]; ++row) {
      for (int64_t column = left; column < left + c.kernel[1]; ++column) {
        const bool padded = row < 5 + c.pads[2] && column < 6 + c.pads[3];
        const bool inside = row >= 0 && row < 5 && column >= 0 && column < 6;
        if (inside || (padded && c.with_pads)) ++number;
        if (!inside) continue;
        const float value = x[static_cast<size_t>(row * 6 + column)];
        sum += value;
        largest = std::max(largest, value);
      }
    }
    out.push_back(max ? largest : static_cast<float>(sum / number));
  }
  return out;
}

TEST(OnnxPools, RoundUpAndHavePadsOfTheirOwnOnEverySide) {
  Floats x;
  for (int i = 0; i < 30; ++i) x.push_back(std::sin(static_cast<float>(i)) - 2);
  for (const PoolCase& c : std::vector<PoolCase>{
           {{2, 2}, {2, 2}, {0, 0, 0, 0}, true, false},
           {{3, 3}, {2, 2}, {1, 1, 1, 1}, true, false},
           {{3, 3}, {2, 2}, {1, 1, 1, 1}, true, true},
           {{3, 2}, {3, 4}, {1, 0, 1, 0}, true, true},
           {{3, 3}, {1, 2}, {1, 0, 0, 1}, false, false},
           {{3, 3}, {2, 3}, {0, 1, 1, 0}, true, true},
           {{1, 1}, {3, 4}, {0, 0, 0, 0}, true, false},
           {{3, 3}, {1, 1}, {1, 1, 1, 1}, true, false},
       }) {
    for (const bool max : {true, false}) {
      HandGraph graph({1, 5, 6});
      ::onnx::NodeProto& node = graph.Node(max ? "MaxPool" : "AveragePool", {"x"}, "y");
      SetInts(node, "kernel_shape", c.kernel);
      SetInts(node, "strides", c.strides);
      SetInts(node, "pads", c.pads);
      NodeAttr(node, "ceil_mode").set_i(c.ceil ? 1 : 0);
      if (!max) NodeAttr(node, "count_include_pad").set_i(c.with_pads ? 1 : 0);
      EXPECT_THAT(OutputOf(graph, x), Pointwise(FloatNear(1e-6f), PoolByHand(c, x, max)))
          << (max ? "max " : "mean ") << Shape(c.kernel) << Shape(c.pads);
    }
  }
}

TEST(OnnxResize, NumbersBecomeBlocks) {
  for (const bool sizes : {false, true}) {
    HandGraph graph({2, 1, 2});
    Strings inputs = {"x", "", "factors"};
    if (sizes) {
      graph.Constant("sizes", {1, 2, 3, 4});
      inputs = {"x", "", "", "sizes"};
    } else {
      graph.Numbers("factors", {4}, {1, 1, 3, 2});
    }
    ::onnx::NodeProto& node = graph.Node("Resize", inputs, "r");
    graph.Weight("zero", {}, 0);
    graph.Node("Add", {"r", "zero"}, "y");
    NodeAttr(node, "mode").set_s("nearest");
    NodeAttr(node, "nearest_mode").set_s("floor");
    NodeAttr(node, "coordinate_transformation_mode").set_s("asymmetric");
    EXPECT_THAT(OutputOf(graph, {1, 2, 3, 4}), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 3, 3,
                                                           4, 4, 3, 3, 4, 4, 3, 3, 4, 4));
  }
}

// Tests linear interpolation between the values 0, 3 and 9 in each mode, for example with the
// results of PyTorch for align_corners=False and True. Also tests resizing to fewer values.
TEST(OnnxResize, LinesBetweenTheOldOnes) {
  struct Case {
    const char* mode;
    int64_t size;
    Floats lines;
  };
  for (const auto& [mode, size, lines] : std::vector<Case>{
           {"half_pixel", 6, {0, 0.75f, 2.25f, 4.5f, 7.5f, 9}},
           {"pytorch_half_pixel", 1, {0}},
           {"align_corners", 5, {0, 1.5f, 3, 6, 9}},
           {"asymmetric", 6, {0, 1.5f, 3, 6, 9, 9}},
           {"half_pixel", 2, {0.75f, 7.5f}},
       }) {
    HandGraph graph({2, 3});
    graph.Constant("sizes", {1, 2, size});
    ::onnx::NodeProto& node = graph.Node("Resize", {"x", "", "", "sizes"}, "r");
    NodeAttr(node, "mode").set_s("linear");
    NodeAttr(node, "coordinate_transformation_mode").set_s(mode);
    graph.Weight("zero", {}, 0);
    graph.Node("Add", {"r", "zero"}, "y");
    Floats want = lines;
    for (const float line : lines) want.push_back(-line);
    EXPECT_THAT(OutputOf(graph, {0, 3, 9, 0, -3, -9}), Pointwise(FloatNear(1e-6f), want)) << mode;
  }
}

// Normalises each group of `count` values: returns (v - mean) / sqrt(variance + epsilon) for each
// v. If `centred` is false, the mean counts as 0 and the variance is the mean square.
Floats Normal(const Floats& x, size_t count, double epsilon, bool centred = true) {
  Floats out;
  for (size_t at = 0; at < x.size(); at += count) {
    double mean = 0, square = 0;
    for (size_t i = at; i < at + count; ++i)
      mean += centred ? x[i] / static_cast<double>(count) : 0;
    for (size_t i = at; i < at + count; ++i) square += std::pow(x[i] - mean, 2);
    for (size_t i = at; i < at + count; ++i) {
      out.push_back(static_cast<float>((x[i] - mean) /
                                       std::sqrt(square / static_cast<double>(count) + epsilon)));
    }
  }
  return out;
}

TEST(OnnxNorms, OfInstancesAndGroups) {
  // Two samples of shape [4, 2].
  const Floats x = {1, 2, 4, 8, -3, 0, 5, 5, 2, 3, 9, 7, 0, 1, 1, 6};
  for (const int64_t groups : {0, 2, 1}) {
    HandGraph graph({4, 2}, 20);
    graph.Numbers("w", {4}, {1, 2, 3, 4});
    graph.Numbers("bias", {4}, {0, 1, 0, -1});
    ::onnx::NodeProto& node = graph.Node(
        groups == 0 ? "InstanceNormalization" : "GroupNormalization", {"x", "w", "bias"}, "y");
    NodeAttr(node, "epsilon").set_f(0.25f);
    if (groups > 0) NodeAttr(node, "num_groups").set_i(groups);
    Floats want = Normal(x, groups == 0 ? 2 : static_cast<size_t>(8 / groups), 0.25);
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t channel = i / 2 % 4;
      want[i] = want[i] * static_cast<float>(channel + 1) + Floats{0, 1, 0, -1}[channel];
    }
    EXPECT_THAT(OutputOf(graph, x, 2), Pointwise(FloatNear(2e-6f), want)) << groups;
  }
}

// Tests RMSNorm in PyTorch's form (a product with the reciprocal root) and in the form of a
// quotient.
TEST(OnnxNorms, OfTheMeanSquare) {
  const Floats x = {1, 2, -4, 3, 0.5f, 0.25f};
  for (const bool quotient : {false, true}) {
    HandGraph graph({3});
    graph.Weight("two", {}, 2);
    graph.Weight("epsilon", {}, 0.5f);
    graph.Node("Pow", {"x", "two"}, "squares");
    SetInts(graph.Node("ReduceMean", {"squares"}, "mean"), "axes", {-1});
    graph.Node("Add", {"mean", "epsilon"}, "sum");
    graph.Node("Sqrt", {"sum"}, "root");
    if (quotient) {
      graph.Node("Div", {"x", "root"}, "y");
    } else {
      graph.Node("Reciprocal", {"root"}, "inverse");
      graph.Node("Mul", {"x", "inverse"}, "y");
    }
    EXPECT_THAT(OutputOf(graph, x, 2), Pointwise(FloatNear(1e-6f), Normal(x, 3, 0.5, false)));
  }
}

// Tests a GRU with one unit over two steps. The update gate, the reset gate and the hidden gate
// have different weights.
TEST(OnnxGru, TheResetGateIsForTheStateOrForItsProduct) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (const bool linear : {false, true}) {
    HandGraph graph({2, 1});
    SetInts(graph.Node("Transpose", {"x"}, "t"), "perm", {1, 0, 2});
    graph.Numbers("W", {1, 3, 1}, {0.5f, -0.3f, 0.8f});
    graph.Numbers("R", {1, 3, 1}, {0.2f, 0.4f, -0.6f});
    graph.Numbers("B", {1, 6}, {0.1f, 0.2f, 0.3f, -0.1f, 0.3f, 0.7f});
    ::onnx::NodeProto& node = graph.Node("GRU", {"t", "W", "R", "B"}, "all");
    node.add_output("h");
    NodeAttr(node, "hidden_size").set_i(1);
    NodeAttr(node, "linear_before_reset").set_i(linear ? 1 : 0);
    double h = 0;
    for (const double x : {1.0, -2.0}) {
      const double z = sigmoid(0.5 * x + 0.1 + 0.2 * h - 0.1);
      const double r = sigmoid(-0.3 * x + 0.2 + 0.4 * h + 0.3);
      const double product = linear ? r * (-0.6 * h + 0.7) : -0.6 * r * h + 0.7;
      h = (1 - z) * std::tanh(0.8 * x + 0.3 + product) + z * h;
    }
    graph.Weight("zero", {}, 0);
    graph.Node("Add", {"h", "zero"}, "y");
    EXPECT_THAT(OutputOf(graph, {1, -2}), ElementsAre(FloatNear(static_cast<float>(h), 1e-6f)));
  }
}

// For a convolution without bias, the exporter writes a bias of zeros whose size depends on the
// filter's shape.
TEST(OnnxKnown, AListOfOneSizeIsRepeated) {
  HandGraph graph({1, 2});
  graph.Weight("w", {3, 1, 1}, 2);
  graph.Constant("one", {1});
  graph.Weight("zero", {}, 0);
  ::onnx::NodeProto& shape = graph.Node("Shape", {"w"}, "sizes");
  NodeAttr(shape, "start").set_i(0);
  NodeAttr(shape, "end").set_i(1);
  graph.Node("Expand", {"sizes", "one"}, "channels");
  graph.Node("Expand", {"zero", "channels"}, "bias");
  graph.Node("Conv", {"x", "w", "bias"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 2}), ElementsAre(2, 4, 2, 4, 2, 4));
  const auto import = graph.Import();
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->program.FindVar("bias")->kind, graph::VarKind::kState);
}

TEST(OnnxKnown, AListOfOneSizeBecomesLonger) {
  HandGraph graph({4});
  graph.Constant("first", {-1});
  graph.Constant("side", {2});
  graph.Constant("times", {2});
  graph.Node("Expand", {"side", "times"}, "sides");
  graph.Node("Concat", {"first", "sides"}, "sizes");
  graph.Node("Reshape", {"x", "sizes"}, "r");
  SetInts(graph.Node("Transpose", {"r"}, "y"), "perm", {0, 2, 1});
  EXPECT_THAT(OutputOf(graph, {1, 2, 3, 4}), ElementsAre(1, 3, 2, 4));
}

// PyTorch's attention computes its scale and its sizes like this.
TEST(OnnxKnown, RemaindersAndRootsOfSizes) {
  HandGraph graph({2});
  graph.Constant("a", {-5});
  graph.Constant("b", {3});
  graph.Constant("c", {8});
  graph.Node("Mod", {"a", "b"}, "one");  // 1, because the result has the sign of b
  graph.Node("Add", {"one", "c"}, "nine");
  NodeAttr(graph.Node("Cast", {"nine"}, "number"), "to").set_i(::onnx::TensorProto::FLOAT);
  graph.Node("Sqrt", {"number"}, "three");
  graph.Node("Mul", {"x", "three"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 2}), ElementsAre(3, 6));
}

// An attention with one key for all heads: X has two matrices for each sample, and Y has one.
TEST(OnnxMatMul, OneMatrixIsRepeated) {
  for (const bool turned : {false, true}) {
    HandGraph graph({1, 2, 2});
    graph.Numbers("w", {2, 1, 1}, {1, 10});
    graph.Node("Mul", {"x", "w"}, "both");  // x and 10 x
    graph.Node("MatMul", {turned ? "x" : "both", turned ? "both" : "x"}, "y");
    Floats slopes;
    // The square of (1 2; 3 4) is (7 10; 15 22), and that of (0 1; 1 0) is (1 0; 0 1).
    EXPECT_THAT(OutputOf(graph, {1, 2, 3, 4, 0, 1, 1, 0}, 2, &slopes),
                ElementsAre(7, 10, 15, 22, 70, 100, 150, 220, 1, 0, 0, 1, 10, 0, 0, 10));
    EXPECT_THAT(slopes, ElementsAre(56, 56));
  }
}

TEST(OnnxPads, APadOfNothingIsRead) {
  HandGraph graph({2});
  graph.Constant("pads", {0, 0, 0, 0});
  graph.Node("Pad", {"x", "pads"}, "same");
  graph.Node("Add", {"same", "same"}, "y");
  EXPECT_THAT(OutputOf(graph, {1, 2}), ElementsAre(2, 4));
}

TEST(OnnxRefusals, SayWhatToDo) {
  HandGraph turned({3, 5, 5});
  SetInts(turned.Node("Transpose", {"x"}, "t"), "perm", {1, 2, 0, 3});
  SetInts(turned.Node("MaxPool", {"t"}, "y"), "kernel_shape", {2, 2});
  EXPECT_THAT(
      turned.Refused(),
      HasSubstr("the window would cover several samples of the batch (dimension 2 of X) [TD1214]"));
  HandGraph fixed({4, 2});
  fixed.SetBatch(8);
  fixed.Weight("first", {8, 1, 2}, 1);
  NodeAttr(fixed.Node("Concat", {"first", "x"}, "y"), "axis").set_i(1);
  EXPECT_THAT(fixed.Refused(),
              HasSubstr("the model contains constants that fit only batch size 8: "));
  EXPECT_THAT(fixed.Refused(), HasSubstr("[TD7016]; hint: export the model with a dynamic batch"));
  HandGraph loop({4});
  loop.Node("Range", {"x", "x", "x"}, "y");
  EXPECT_THAT(loop.Refused(),
              HasSubstr("node 0, Range \"\": the node makes the computation depend on data, which "
                        "is not supported [TD7014]; hint: replace the loop by a Python loop"));
  HandGraph cubic({2, 4, 4});
  cubic.Numbers("factors", {4}, {1, 1, 2, 2});
  NodeAttr(cubic.Node("Resize", {"x", "", "factors"}, "y"), "mode").set_s("cubic");
  EXPECT_THAT(cubic.Refused(),
              HasSubstr("nearest and linear, is not supported [TD7015]; hint: use nn.Upsample"));
  HandGraph automatic({2, 4, 4});
  automatic.Weight("w", {3, 2, 3, 3}, 1);
  NodeAttr(automatic.Node("Conv", {"x", "w"}, "y"), "auto_pad").set_s("SAME_UPPER");
  EXPECT_THAT(automatic.Refused(),
              HasSubstr("auto_pad = SAME_UPPER is not supported [TD7015]; hint: export"));
  HandGraph deep({2, 4, 4, 4});
  deep.Weight("w", {3, 2, 3, 3, 3}, 1);
  deep.Node("Conv", {"x", "w"}, "y");
  EXPECT_THAT(deep.Refused(),
              HasSubstr("X has 5 dimensions, expected 3 (n, c, w) or 4 (n, c, h, w)"));
}

}  // namespace
}  // namespace tandem::onnx
