#include <algorithm>

#include "tests/ops/op_cases.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

constexpr char kBlocked[] = "nChw16c", kLast[] = "NHWC";

struct Conv {
  Shape x;  // dimensions of the input: [n,c,h,w]
  int64_t out_c;
  Ints kernel;
  Ints strides = {1, 1}, paddings = {0, 0}, dilations = {1, 1};
  int64_t groups = 1;
  bool bench = false;
  const char *in = "NCHW", *out = "NCHW";  // layouts of the input and the output
  bool winograd = false, relu = false;
};

ops::AttrMap Attrs(const Conv& c) {
  return {{"strides", c.strides},
          {"paddings", c.paddings},
          {"dilations", c.dilations},
          {"groups", c.groups},
          {"input_layout", std::string(c.in)},
          {"output_layout", std::string(c.out)},
          {"algorithm", std::string(c.winograd ? "winograd" : "direct")},
          {"fuse_relu_before_depthwise_conv", c.relu}};
}

void AddConv(const Conv& c, std::vector<OpCase>& cases) {
  const Shape w{c.out_c, c.x[1] / c.groups, c.kernel[0], c.kernel[1]};
  OpCase with_bias = {.op = "conv2d",
                      .inputs = {{F32(c.x)}, {F32(w)}, {F32({c.out_c})}},
                      .attrs = Attrs(c),
                      .tolerance = Products(w.numel(1, 4)),
                      .grad_slots = {0, 1, 2},
                      .bench = c.bench};
  // Gets the shape of the output from the oracle. The batch is empty, so that the oracle has little
  // work.
  OpCase empty = with_bias;
  empty.inputs[0] = {F32({0, c.x[1], c.x[2], c.x[3]})};
  Shape out = RunOracle(empty, DrawInputs(empty, 0))[0].desc.shape;
  out[0] = c.x[0];
  with_bias.flops = 2.0 * static_cast<double>(out.numel() * w.numel(1, 4));
  OpCase without = with_bias;
  without.inputs[2] = {};
  without.grad_slots = {0, 1};
  without.bench = false;
  if (!c.bench) {
    for (const OpCase& row : {with_bias, without}) {
      cases.push_back(row);
      cases.back().op = "conv2d_relu";
      cases.back().grad_slots = {};
      if (c.winograd) cases.back().tolerance = {.of_max = 1e-4};
    }
  }
  OpCase grad = {.op = "conv2d_grad",
                 .inputs = {{F32(c.x)}, {F32(w)}, {F32(out)}},
                 .attrs = Attrs(c),
                 .tolerance = Products(std::max(out[0] * out.numel(2, 4), c.out_c * w.numel(2, 4))),
                 .bits_vary_with_threads = true,
                 .flops = 2 * with_bias.flops,
                 .bench = c.bench};
  if (c.winograd) {
    // The Winograd transforms multiply by factors up to 8, and large terms of their sums cancel.
    // Therefore errors are larger.
    for (OpCase* row : {&with_bias, &without, &grad}) row->tolerance = {.of_max = 1e-4};
    with_bias.grad_slots = without.grad_slots = {};
  }
  cases.push_back(with_bias);
  cases.push_back(without);
  cases.push_back(grad);
  if (c.bench) return;
  for (const std::vector<size_t>& absent :
       {std::vector<size_t>{0}, std::vector<size_t>{2}, std::vector<size_t>{0, 1}}) {
    grad.absent_outputs = absent;
    cases.push_back(grad);
  }
  grad.absent_outputs = {1, 2};
  cases.push_back(grad);
}

struct Pool {
  Shape x;
  Ints kernel;
  Ints strides = {1, 1}, paddings = {0, 0};
  bool bench = false;
  bool ties = false;  // whether windows have several equal largest elements
  const char* layout = "NCHW";
};

void AddPool(const Pool& p, const std::string& type, bool exclusive, bool global,
             std::vector<OpCase>& cases) {
  const bool max = type == "max";
  OpCase forward = {.op = "pool2d",
                    .inputs = {{max ? Distinct(p.x) : F32(p.x)}},
                    .attrs = {{"pooling_type", type},
                              {"ksize", p.kernel},
                              {"strides", p.strides},
                              {"paddings", p.paddings},
                              {"exclusive", exclusive},
                              {"data_layout", std::string(p.layout)}},
                    .tolerance = max ? Tolerance{} : Tolerance{.of_max = 1e-6},
                    .grad_slots = {0},
                    .bench = p.bench};
  if (global) {
    forward.attrs["global_pooling"] = true;
    forward.attrs.erase("ksize");
  }
  if (p.ties) {
    forward.inputs = {{Few(p.x)}};
    forward.grad_slots = {};
  }
  const auto inputs = DrawInputs(forward, 0);
  const Shape out = RunOracle(forward, inputs)[0].desc.shape;
  OpCase grad = forward;
  grad.op = "pool2d_grad";
  grad.grad_slots = {};
  const Draw derived = {.desc = {DType::kF32, out},
                        .kind = Draw::kDerived,
                        .derive = [forward](std::span<const Value> before) {
                          Value y = RunOracle(forward, before.first(1))[0];
                          for (double& v : y.v) v = static_cast<float>(v);
                          return y;
                        }};
  grad.inputs = {forward.inputs[0], {derived}, {F32(out)}};
  // Tolerance for overlapping windows: the gradient of one element is the sum of the gradients of
  // several windows.
  grad.tolerance = {.of_max = 1e-6};
  cases.push_back(forward);
  cases.push_back(grad);
}

void AddPools(const Pool& p, std::vector<OpCase>& cases) {
  AddPool(p, "max", true, false, cases);
  AddPool(p, "avg", true, false, cases);
  if (p.paddings != Ints{0, 0}) AddPool(p, "avg", false, false, cases);
}

struct Transposed {
  Shape x;
  Shape w;
  Ints strides = {1, 1}, paddings = {0, 0}, dilations = {1, 1}, more = {0, 0};
  int64_t groups = 1;
};

void AddTransposed(const Transposed& t, std::vector<OpCase>& cases) {
  OpCase forward = {.op = "conv2d_transpose",
                    .inputs = {{F32(t.x)}, {F32(t.w)}},
                    .attrs = {{"strides", t.strides},
                              {"paddings", t.paddings},
                              {"dilations", t.dilations},
                              {"output_padding", t.more},
                              {"groups", t.groups}},
                    .tolerance = Products(t.w.numel()),
                    .grad_slots = {0, 1}};
  const Shape out = RunOracle(forward, DrawInputs(forward, 0))[0].desc.shape;
  OpCase grad = forward;
  grad.op = "conv2d_transpose_grad";
  grad.inputs.push_back({F32(out)});
  grad.tolerance = Products(t.x.numel());
  grad.grad_slots = {};
  grad.bits_vary_with_threads = true;
  cases.push_back(forward);
  cases.push_back(grad);
  for (const size_t absent : {size_t{0}, size_t{1}}) {
    grad.absent_outputs = {absent};
    cases.push_back(grad);
  }
}

void AddTransposed(std::vector<OpCase>& cases) {
  const Transposed all[] = {
      {.x = {1, 1, 1, 1}, .w = {1, 1, 1, 1}},
      {.x = {2, 3, 4, 5}, .w = {3, 2, 3, 3}},
      {.x = {2, 4, 3, 3}, .w = {4, 3, 4, 4}, .strides = {2, 2}, .paddings = {1, 1}},
      {.x = {1, 3, 4, 3}, .w = {3, 5, 3, 2}, .strides = {2, 3}, .paddings = {1, 0}, .more = {1, 2}},
      {.x = {2, 2, 5, 4}, .w = {2, 2, 3, 3}, .dilations = {2, 1}},
      {.x = {2, 6, 4, 4}, .w = {6, 2, 3, 3}, .strides = {2, 2}, .groups = 3},
      {.x = {2, 32, 5, 5}, .w = {32, 16, 2, 2}, .strides = {2, 2}},
  };
  for (const Transposed& t : all) AddTransposed(t, cases);
}

struct Samples {
  int64_t count, size;
  int64_t width, height;  // size of the largest image in pixels
  ops::AttrMap attrs = {};
  bool bench = false;
  double rounding = 1.2e-7;  // rounding error of the output's type, relative to the largest value
};

// Adds rows with images of several sizes. In memory the images are in reverse order. Taps cover the
// whole width and height of an image.
void AddSamples(const Samples& s, std::vector<OpCase>& cases) {
  const auto side = [](int64_t most, int64_t i) { return std::max<int64_t>(1, most - i % 5); };
  Value images{{DType::kI64, {s.count, 3}}, {}};
  int64_t bytes = 2;  // offset of the next image; the first two bytes belong to no image
  for (int64_t i = s.count - 1; i >= 0; --i) {
    const int64_t width = side(s.width, i), height = side(s.height, 2 * i);
    const auto row = {static_cast<double>(bytes), static_cast<double>(width),
                      static_cast<double>(height)};
    images.v.insert(images.v.begin(), row);
    bytes += width * height * 3;
  }
  Value taps{{DType::kI32, {s.count, 2, s.size}}, {}};
  for (int64_t i = 0; i < s.count * 2 * s.size; ++i) {
    const bool column = i / s.size % 2 == 1;
    const auto pixels = static_cast<int64_t>(
        images.v[static_cast<size_t>(i / (2 * s.size) * 3 + (column ? 1 : 2))]);
    // Taps run from the last pixel to the first one, so the sample is mirrored. The weights run
    // through the range 0 to 256.
    const int64_t at = (pixels - 1) * (s.size - 1 - i % s.size) / std::max<int64_t>(s.size - 1, 1);
    taps.v.push_back(static_cast<double>(at * 512 + i * 37 % 257));
  }
  const auto given = [](const Value& value) {
    return Draw{.desc = value.desc,
                .kind = Draw::kDerived,
                .derive = [value](std::span<const Value>) { return value; }};
  };
  const Draw pixels = {.desc = {DType::kU8, {bytes}}, .kind = Draw::kLabel, .low = 0, .high = 256};
  cases.push_back({.op = "sample_image",
                   .inputs = {{pixels}, {given(images)}, {given(taps)}},
                   .attrs = s.attrs,
                   .tolerance = {.of_max = s.rounding},
                   .bench = s.bench});
}

void AddAllSamples(std::vector<OpCase>& cases) {
  const ops::AttrMap normal = {{"scale", std::vector<double>{0.5, 0.25, 0.01}},
                               {"bias", std::vector<double>{-2, 0, 1}}};
  ops::AttrMap last = normal, half = normal, half_last = normal;
  last["channels_last"] = half_last["channels_last"] = true;
  half["out_dtype"] = std::string("f16");
  half_last["out_dtype"] = std::string("bf16");
  AddSamples({1, 1, 1, 1}, cases);
  AddSamples({1, 1, 2, 2, last}, cases);
  AddSamples({3, 4, 8, 8}, cases);
  AddSamples({3, 5, 9, 2, normal}, cases);
  AddSamples({7, 18, 36, 31, last}, cases);
  AddSamples({4, 18, 5, 36, normal}, cases);
  AddSamples({2, 6, 12, 7, half, false, 5e-4}, cases);
  AddSamples({2, 6, 12, 7, half_last, false, 4e-3}, cases);
  AddSamples({0, 3, 4, 4}, cases);
  AddSamples({5, 70, 140, 90, normal}, cases);  // large enough that the work is split over threads
  AddSamples({16, 224, 320, 300, normal, true}, cases);
}

}  // namespace

std::vector<OpCase> ImageCases() {
  const Conv convs[] = {
      {.x = {1, 1, 1, 1}, .out_c = 1, .kernel = {1, 1}},
      {.x = {2, 3, 5, 7}, .out_c = 4, .kernel = {3, 3}},
      {.x = {1, 1, 28, 28}, .out_c = 6, .kernel = {5, 5}},
      {.x = {3, 2, 9, 6}, .out_c = 5, .kernel = {3, 3}, .paddings = {1, 1}},
      {.x = {2, 3, 8, 9}, .out_c = 7, .kernel = {3, 2}, .strides = {2, 3}, .paddings = {1, 0}},
      {.x = {2, 3, 8, 9}, .out_c = 2, .kernel = {1, 3}, .paddings = {0, 2}},
      {.x = {1, 2, 11, 10}, .out_c = 3, .kernel = {3, 3}, .dilations = {2, 3}},
      {.x = {2, 4, 7, 7}, .out_c = 6, .kernel = {3, 3}, .paddings = {2, 2}, .dilations = {2, 2}},
      {.x = {2, 4, 6, 6}, .out_c = 8, .kernel = {3, 3}, .paddings = {1, 1}, .groups = 2},
      {.x = {2, 6, 5, 5}, .out_c = 6, .kernel = {3, 3}, .paddings = {1, 1}, .groups = 6},
      {.x = {1, 3, 6, 7}, .out_c = 9, .kernel = {2, 2}, .strides = {2, 2}, .groups = 3},
      {.x = {2, 16, 7, 7}, .out_c = 32, .kernel = {1, 1}},
      {.x = {2, 17, 9, 9}, .out_c = 15, .kernel = {3, 3}, .strides = {2, 2}, .paddings = {1, 1}},
      {.x = {2, 32, 8, 8}, .out_c = 16, .kernel = {3, 3}, .paddings = {1, 1}},
      {.x = {1, 3, 16, 16}, .out_c = 8, .kernel = {7, 7}, .strides = {2, 2}, .paddings = {3, 3}},
      // The output has one position.
      {.x = {1, 2, 3, 3}, .out_c = 2, .kernel = {3, 3}},
      // Most positions of a window are padding.
      {.x = {1, 2, 2, 2}, .out_c = 2, .kernel = {5, 5}, .paddings = {2, 2}},
      // The stride is larger than the kernel.
      {.x = {1, 2, 7, 7}, .out_c = 2, .kernel = {2, 2}, .strides = {4, 5}},
      // The batch has no images.
      {.x = {0, 2, 5, 5}, .out_c = 3, .kernel = {3, 3}},
      // Both input and output have a blocked layout, as in a chain of oneDNN operators.
      {.x = {2, 16, 7, 6},
       .out_c = 32,
       .kernel = {3, 3},
       .paddings = {1, 1},
       .in = kBlocked,
       .out = kBlocked},
      {.x = {2, 3, 9, 9}, .out_c = 16, .kernel = {3, 3}, .strides = {2, 2}, .out = kBlocked},
      {.x = {2, 32, 5, 5}, .out_c = 5, .kernel = {1, 1}, .in = kBlocked},
      {.x = {2, 32, 6, 5},
       .out_c = 48,
       .kernel = {1, 1},
       .strides = {2, 2},
       .in = kBlocked,
       .out = kBlocked},
      {.x = {2, 32, 6, 5},
       .out_c = 32,
       .kernel = {3, 3},
       .paddings = {1, 1},
       .groups = 32,
       .in = kBlocked,
       .out = kBlocked},
      {.x = {2, 32, 9, 8},
       .out_c = 48,
       .kernel = {3, 3},
       .paddings = {1, 1},
       .in = kBlocked,
       .out = kBlocked,
       .winograd = true},
      {.x = {1, 6, 7, 7}, .out_c = 4, .kernel = {3, 3}, .winograd = true},
      // Channels are the last dimension. The number of channels may be no multiple of the vector
      // length.
      {.x = {2, 5, 7, 6},
       .out_c = 9,
       .kernel = {3, 3},
       .paddings = {1, 1},
       .in = kLast,
       .out = kLast},
      {.x = {2, 3, 9, 9}, .out_c = 16, .kernel = {3, 3}, .strides = {2, 2}, .out = kLast},
      {.x = {2, 32, 6, 5},
       .out_c = 48,
       .kernel = {1, 1},
       .strides = {2, 2},
       .in = kLast,
       .out = kLast},
      {.x = {2, 24, 6, 5},
       .out_c = 24,
       .kernel = {3, 3},
       .paddings = {1, 1},
       .groups = 24,
       .in = kLast,
       .out = kLast},
      {.x = {2, 16, 7, 6},
       .out_c = 32,
       .kernel = {3, 3},
       .strides = {2, 1},
       .paddings = {1, 1},
       .groups = 4,
       .in = kLast,
       .out = kLast},
      {.x = {2, 40, 5, 4}, .out_c = 40, .kernel = {1, 1}, .in = kLast, .out = kLast},
      // Kernels compute 16-bit rows as matrix products. If the kernel is 1 x 1, a row of the matrix
      // is a pixel; else a row has all inputs of one output pixel.
      {.x = {2, 20, 6, 5}, .out_c = 24, .kernel = {1, 1}, .in = kLast, .out = kLast},
      {.x = {2, 19, 7, 6},
       .out_c = 9,
       .kernel = {3, 3},
       .paddings = {1, 1},
       .in = kLast,
       .out = kLast},
      {.x = {2, 16, 9, 40},
       .out_c = 17,
       .kernel = {3, 2},
       .strides = {2, 2},
       .paddings = {2, 1},
       .dilations = {1, 2},
       .in = kLast,
       .out = kLast},
      {.x = {2, 6, 7, 5},
       .out_c = 6,
       .kernel = {3, 3},
       .paddings = {1, 1},
       .groups = 6,
       .relu = true},
      {.x = {2, 16, 7, 5},
       .out_c = 32,
       .kernel = {3, 3},
       .strides = {2, 2},
       .groups = 16,
       .in = kBlocked,
       .out = kBlocked,
       .relu = true},
      {.x = {32, 6, 12, 12}, .out_c = 16, .kernel = {5, 5}, .bench = true},
      {.x = {32, 1, 28, 28}, .out_c = 6, .kernel = {5, 5}, .paddings = {2, 2}, .bench = true}};
  std::vector<OpCase> cases;
  for (const Conv& c : convs) AddConv(c, cases);

  const Pool pools[] = {
      {.x = {1, 1, 2, 2}, .kernel = {2, 2}, .strides = {2, 2}},
      {.x = {2, 3, 6, 8}, .kernel = {2, 2}, .strides = {2, 2}},
      // No window contains the last row or the last column.
      {.x = {2, 3, 7, 9}, .kernel = {2, 2}, .strides = {2, 2}},
      // A row of the image fills several vectors and a part of another one.
      {.x = {2, 2, 5, 66}, .kernel = {2, 2}, .strides = {2, 2}},
      {.x = {1, 3, 40, 37}, .kernel = {2, 2}, .strides = {2, 2}},
      {.x = {2, 2, 8, 8}, .kernel = {3, 3}, .strides = {2, 2}, .paddings = {1, 1}},
      {.x = {2, 2, 6, 7}, .kernel = {3, 2}, .strides = {1, 2}, .paddings = {1, 0}},
      {.x = {1, 2, 5, 5}, .kernel = {3, 3}},
      {.x = {1, 2, 9, 9}, .kernel = {2, 2}, .strides = {3, 4}},
      {.x = {1, 1, 4, 5}, .kernel = {4, 5}},
      {.x = {1, 2, 2, 3}, .kernel = {3, 3}, .paddings = {2, 2}},
      {.x = {0, 2, 4, 4}, .kernel = {2, 2}, .strides = {2, 2}},
      {.x = {2, 16, 7, 9},
       .kernel = {3, 3},
       .strides = {2, 2},
       .paddings = {1, 1},
       .layout = kBlocked},
      {.x = {1, 32, 6, 5}, .kernel = {2, 2}, .strides = {2, 1}, .layout = kBlocked},
      {.x = {2, 5, 7, 9}, .kernel = {3, 3}, .strides = {2, 2}, .paddings = {1, 1}, .layout = kLast},
      {.x = {1, 32, 6, 5}, .kernel = {2, 2}, .strides = {2, 1}, .layout = kLast},
      {.x = {16, 8, 24, 24}, .kernel = {2, 2}, .strides = {2, 2}, .bench = true}};
  for (const Pool& p : pools) AddPools(p, cases);
  // After relu, windows have many zeros. The first of the largest elements of a window gets the
  // gradient.
  AddPool({.x = {2, 3, 12, 70}, .kernel = {2, 2}, .strides = {2, 2}, .ties = true}, "max", true,
          false, cases);
  AddPool({.x = {2, 3, 9, 10}, .kernel = {3, 3}, .paddings = {1, 1}, .ties = true}, "max", true,
          false, cases);
  AddPool(
      {.x = {2, 16, 9, 10}, .kernel = {3, 3}, .paddings = {1, 1}, .ties = true, .layout = kBlocked},
      "max", true, false, cases);
  AddPool({.x = {2, 7, 9, 10}, .kernel = {3, 3}, .paddings = {1, 1}, .ties = true, .layout = kLast},
          "max", true, false, cases);
  for (const char* type : {"max", "avg"}) {
    AddPool({.x = {2, 6, 3, 5}, .kernel = {}, .layout = kLast}, type, true, true, cases);
    AddPool({.x = {2, 32, 3, 5}, .kernel = {}, .layout = kBlocked}, type, true, true, cases);
    AddPool({.x = {2, 3, 7, 5}, .kernel = {}}, type, true, true, cases);
    AddPool({.x = {1, 1, 1, 1}, .kernel = {}}, type, true, true, cases);
  }
  AddTransposed(cases);
  AddAllSamples(cases);
  for (const char* from : {"NCHW", kBlocked, kLast}) {
    for (const char* to : {"NCHW", kBlocked, kLast}) {
      for (const Shape& x : {Shape{2, 16, 3, 5}, {1, 48, 7, 7}, {3, 32, 1, 1}}) {
        cases.push_back({.op = "reorder",
                         .inputs = {{F32(x)}},
                         .attrs = {{"from", std::string(from)}, {"to", std::string(to)}}});
      }
    }
  }
  for (const auto& [from, to] : {std::pair("NCHW", "NHWC"), std::pair("NHWC", "NCHW")}) {
    cases.push_back({.op = "reorder",
                     .inputs = {{F32({2, 5, 3, 4})}},
                     .attrs = {{"from", std::string(from)}, {"to", std::string(to)}}});
  }
  return cases;
}

}  // namespace tandem::optest
