// Reads convolutions and poolings. The readers treat a row [n, c, w] as an image [n, c, 1, w] of
// one line.
#include <algorithm>
#include <limits>

#include "trainer/onnx/op_readers.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

constexpr double kLargestPixel = std::numeric_limits<float>::max();
constexpr int64_t kWindowMax = int64_t{1} << 30;
constexpr int64_t kNumbersMax = int64_t{1} << 24;  // maximum number of elements in a new tensor

// The window of a convolution or pooling, in the two dimensions of an image.
struct Window {
  bool row = false;  // X has one dimension besides n and c
  Ints kernel, strides, dilations, begins, ends;

  // Returns whether the pads at the beginning and at the end are equal.
  bool even() const { return begins == ends; }
};

// Returns X as an image with height and width. Sets `row` if X has only a width.
StatusOr<std::string> AsImage(const Node& n, const std::string& x, bool* row) {
  const int rank = n.graph().program().Desc(x).shape.rank();
  *row = rank == 3;
  if (rank != 3 && rank != 4) {
    return Unimplemented(
        "X has %d dimensions, expected 3 (n, c, w) or 4 (n, c, h, w) [TD7015]; hint: use the 1d or "
        "2d form of the layer",
        rank);
  }
  TD_ASSIGN_OR_RETURN(const auto batch, n.graph().program().BatchOf(x));
  if (batch && batch->axis >= 2) {
    return Unimplemented(
        "the window would cover several samples of the batch (dimension %d of X) [TD1214]",
        batch->axis);
  }
  if (rank == 4) return x;
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  sizes.insert(sizes.begin() + 2, 1);
  return n.TempReshape(x, sizes);
}

// Appends the last operator of the node. `row`: the result is converted from an image to a row.
Status Give(const Node& n, bool row, const std::string& type, Slots inputs, ops::AttrMap attrs) {
  if (!row) return n.Done(type, std::move(inputs), std::move(attrs));
  TD_ASSIGN_OR_RETURN(const std::string image, n.Temp(type, std::move(inputs), std::move(attrs)));
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(image));
  sizes.erase(sizes.begin() + 2);
  return n.Reshape(image, sizes);
}

// Returns the numbers of an attribute for the height and the width. `row`: the node has only a
// width; the height is 1, and the numbers for the height are `fallback`. `sides`: numbers per
// dimension, 1 or 2 (pads).
StatusOr<Ints> Pair(const Node& n, bool row, const char* name, int64_t fallback, size_t sides = 1) {
  Ints given = n.attributes().Ints(name, Ints((row ? 1 : 2) * sides, fallback));
  if (given.size() != (row ? 1 : 2) * sides) {
    return InvalidArgument("attribute %s has %d numbers, expected %d [TD2108]", name, given.size(),
                           (row ? 1 : 2) * sides);
  }
  for (const int64_t number : given) {
    if (number < 0 || number > kWindowMax)
      return InvalidArgument("attribute %s contains %d, which is out of range [TD2108]", name,
                             number);
  }
  if (row && sides == 1) given.insert(given.begin(), fallback);
  if (row && sides == 2) given = {fallback, given[0], fallback, given[1]};
  return given;
}

// Reads the window's attributes. ONNX lists the pads at the beginning of all dimensions first, then
// the pads at the end of all dimensions.
StatusOr<Window> WindowOf(const Node& n, bool row, const Ints& kernel) {
  Window w{.row = row, .kernel = kernel};
  TD_ASSIGN_OR_RETURN(w.strides, Pair(n, row, "strides", 1));
  TD_ASSIGN_OR_RETURN(w.dilations, Pair(n, row, "dilations", 1));
  TD_ASSIGN_OR_RETURN(Ints pads, Pair(n, row, "pads", 0, 2));
  const std::string automatic = n.attributes().Text("auto_pad", "NOTSET");
  if (automatic == "VALID") {
    pads = Ints(4, 0);
  } else if (automatic != "NOTSET") {
    return Unimplemented(
        "auto_pad = %s is not supported [TD7015]; hint: export the model with explicit pads",
        automatic);
  }
  if (*std::min_element(w.strides.begin(), w.strides.end()) < 1) {
    return InvalidArgument("attribute strides contains 0, expected at least 1 [TD2108]");
  }
  w.begins = {pads[0], pads[1]};
  w.ends = {pads[2], pads[3]};
  return w;
}

// Returns the window of the filter. Sets `filter` to the filter with height and width.
StatusOr<Window> FilterOf(const Node& n, bool row, std::string* filter) {
  TD_ASSIGN_OR_RETURN(*filter, n.in(1));
  if (row) {
    const Shape shape = n.graph().program().Desc(*filter).shape;
    if (shape.rank() != 3)
      return InvalidArgument("the filter has shape %s, expected 3 dimensions [TD2108]",
                             ToString(shape));
    TD_ASSIGN_OR_RETURN(*filter, n.TempReshape(*filter, {shape[0], shape[1], 1, shape[2]}));
  }
  const Shape shape = n.graph().program().Desc(*filter).shape;
  if (shape.rank() != 4)
    return InvalidArgument("the filter has shape %s, expected 4 dimensions [TD2108]",
                           ToString(shape));
  const Ints kernel = {shape[2], shape[3]};
  if (n.attributes().Find("kernel_shape") != nullptr) {
    TD_ASSIGN_OR_RETURN(const Ints given, Pair(n, row, "kernel_shape", 1));
    if (given != kernel) {
      return InvalidArgument(
          "attribute kernel_shape contradicts the shape %s of the filter [TD2108]",
          ToString(shape));
    }
  }
  return WindowOf(n, row, kernel);
}

// Returns a variable whose elements all are `number`. The variable has the sizes of `x`, except
// size `count` along dimension `axis`. It is computed as `x` times 0 plus `number`, so the gradient
// that it passes on to `x` is 0.
StatusOr<std::string> Lines(const Node& n, const std::string& x, int64_t axis, int64_t count,
                            double number) {
  if (count > n.graph().program().Desc(x).shape[static_cast<int>(axis)]) {
    return Unimplemented("pads = %d is larger than the image [TD7015]; hint: use a smaller padding",
                         count);
  }
  TD_ASSIGN_OR_RETURN(
      const std::string some,
      n.Temp("slice", {{x}}, {{"axes", Ints{axis}}, {"starts", Ints{0}}, {"ends", Ints{count}}}));
  return n.Temp("scale", {{some}}, {{"scale", 0.0}, {"bias", number}});
}

// Adds the window's pads to the image as lines of `number`, and returns the image. Sets the pads of
// the window to 0.
StatusOr<std::string> Padded(const Node& n, std::string x, Window* w, double number) {
  for (const size_t d : {size_t{0}, size_t{1}}) {
    const auto axis = static_cast<int64_t>(d + 2);
    Slots parts = {{x}};
    for (const bool end : {false, true}) {
      const int64_t count = end ? w->ends[d] : w->begins[d];
      if (count == 0) continue;
      TD_ASSIGN_OR_RETURN(const std::string lines, Lines(n, x, axis, count, number));
      parts[0].insert(end ? parts[0].end() : parts[0].begin(), lines);
    }
    if (parts[0].size() == 1) continue;
    TD_ASSIGN_OR_RETURN(x, n.Temp("concat", parts, {{"axis", axis}}));
  }
  w->begins = w->ends = {0, 0};
  return x;
}

Status Conv(const Node& n) {
  bool row = false;
  std::string filter;
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(x, AsImage(n, x, &row));
  TD_ASSIGN_OR_RETURN(Window w, FilterOf(n, row, &filter));
  if (!w.even()) {
    TD_ASSIGN_OR_RETURN(x, Padded(n, x, &w, 0));
  }
  Slots inputs = {{x}, {filter}, {}};
  if (n.has(2)) {
    TD_ASSIGN_OR_RETURN(inputs[2].emplace_back(), n.in(2));
  }
  return Give(n, row, "conv2d", std::move(inputs),
              {{"strides", w.strides},
               {"paddings", w.begins},
               {"dilations", w.dilations},
               {"groups", n.attributes().Int("group", 1)}});
}

Status ConvTranspose(const Node& n) {
  bool row = false;
  std::string filter;
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(x, AsImage(n, x, &row));
  TD_ASSIGN_OR_RETURN(const Window w, FilterOf(n, row, &filter));
  TD_ASSIGN_OR_RETURN(const Ints more, Pair(n, row, "output_padding", 0));
  if (!w.even() || !n.attributes().Ints("output_shape", {}).empty()) {
    return Unimplemented(
        "output_shape and asymmetric pads are not supported [TD7015]; hint: use padding and "
        "output_padding");
  }
  ops::AttrMap attrs = {{"strides", w.strides},
                        {"paddings", w.begins},
                        {"dilations", w.dilations},
                        {"output_padding", more},
                        {"groups", n.attributes().Int("group", 1)}};
  if (!n.has(2)) return Give(n, row, "conv2d_transpose", {{x}, {filter}}, std::move(attrs));
  TD_ASSIGN_OR_RETURN(x, n.Temp("conv2d_transpose", {{x}, {filter}}, std::move(attrs)));
  TD_ASSIGN_OR_RETURN(const std::string bias, n.in(2));
  return Give(n, row, "elementwise_add", {{x}, {bias}}, {{"axis", int64_t{1}}});
}

// Returns the number of windows over `size` lines along dimension `d`.
int64_t WindowsOf(const Window& w, size_t d, int64_t size) {
  return (size + w.begins[d] + w.ends[d] - w.kernel[d]) / w.strides[d] + 1;
}

// Implements ceil_mode. If no window contains the last lines of a dimension, increases the pads at
// the end of the dimension, so that one more window fits. The additional window must begin in the
// image or in the pads at the beginning.
void RoundUp(Window* w, const Ints& sizes) {
  for (const size_t d : {size_t{0}, size_t{1}}) {
    // `begin`: the first line of the additional window.
    const int64_t begin = WindowsOf(*w, d, sizes[d]) * w->strides[d];
    const int64_t room = sizes[d] + w->begins[d] + w->ends[d];
    const int64_t more = begin + w->kernel[d] - room;
    // If `more` is the stride, all lines are in windows.
    if (begin < sizes[d] + w->begins[d] && more > 0 && more < w->strides[d]) w->ends[d] += more;
  }
}

// Returns a factor for each window along dimension `d`. The factor converts the sum over the
// window, divided by the size of the window, to the mean over the window's lines from `first`
// (included) to `last` (excluded).
std::vector<float> Shares(const Window& w, size_t d, int64_t size, int64_t first, int64_t last) {
  std::vector<float> shares;
  for (int64_t i = 0; i < WindowsOf(w, d, size); ++i) {
    const int64_t begin = i * w.strides[d] - w.begins[d], end = begin + w.kernel[d];
    const int64_t count = std::min(end, last) - std::max(begin, first);
    shares.push_back(static_cast<float>(w.kernel[d]) / static_cast<float>(count));
  }
  return shares;
}

// Computes an average pooling whose means are over different numbers of lines. `ends`: the pads at
// the end that the node names. `with_pads`: the means include the pads.
Status UnevenMean(const Node& n, std::string x, Window w, const Ints& ends, bool with_pads) {
  const Shape shape = n.graph().program().Desc(x).shape;
  const int64_t heights = WindowsOf(w, 0, shape[2]), widths = WindowsOf(w, 1, shape[3]);
  if (heights > kNumbersMax || widths > kNumbersMax / heights) {
    return Unimplemented(
        "average pooling whose windows have different sizes, with %d x %d windows, needs too much "
        "memory [TD7015]; "
        "hint: export the pooling with ceil_mode=False",
        heights, widths);
  }
  std::vector<float> shares[2];
  for (const size_t d : {size_t{0}, size_t{1}}) {
    const int64_t size = shape[static_cast<int>(d) + 2];
    shares[d] = Shares(w, d, size, with_pads ? -w.begins[d] : 0, size + (with_pads ? ends[d] : 0));
  }
  TD_ASSIGN_OR_RETURN(Tensor factors, n.graph().known().NewTensor(DType::kF32, {heights, widths}));
  float* factor = factors.span<float>().data();
  for (const float a : shares[0]) {
    for (const float b : shares[1]) *factor++ = a * b;
  }
  n.graph().known().Add(n.out() + ".shares", std::move(factors));
  TD_ASSIGN_OR_RETURN(const std::string known, n.graph().Var(n.out() + ".shares"));
  TD_ASSIGN_OR_RETURN(x, Padded(n, x, &w, 0));
  TD_ASSIGN_OR_RETURN(x, n.Temp("pool2d", {{x}},
                                {{"pooling_type", std::string("avg")},
                                 {"ksize", w.kernel},
                                 {"strides", w.strides},
                                 {"paddings", w.begins}}));
  return Give(n, w.row, "elementwise_mul", {{x}, {known}}, {{"axis", int64_t{2}}});
}

Status Pool(const Node& n, bool max) {
  bool row = false;
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(x, AsImage(n, x, &row));
  TD_ASSIGN_OR_RETURN(const Ints kernel, Pair(n, row, "kernel_shape", 1));
  TD_ASSIGN_OR_RETURN(Window w, WindowOf(n, row, kernel));
  if (w.dilations != Ints{1, 1}) {
    return Unimplemented(
        "dilations other than 1 are not supported [TD7015]; hint: export the pooling with "
        "dilation=1");
  }
  if (n.outputs() > 1) {
    return Unimplemented(
        "the second output, the indices, is not supported [TD7015]; hint: use only the pooled "
        "values");
  }
  TD_RETURN_IF_ERROR(n.attributes().Only("storage_order", 0));
  const bool with_pads = n.attributes().Int("count_include_pad", 0) != 0;
  const Shape shape = n.graph().program().Desc(x).shape;
  const Ints sizes = {shape[2], shape[3]}, ends = w.ends;
  for (const size_t d : {size_t{0}, size_t{1}}) {
    const bool fits = kernel[d] > std::max(w.begins[d], w.ends[d]) &&
                      kernel[d] <= sizes[d] + w.begins[d] + w.ends[d];
    if (!fits)
      return InvalidArgument("a window of %d elements does not fit the padded input [TD2108]",
                             kernel[d]);
  }
  if (n.attributes().Int("ceil_mode", 0) != 0) RoundUp(&w, sizes);
  if (!w.even() && !max) return UnevenMean(n, x, w, ends, with_pads);
  if (!w.even()) {
    TD_ASSIGN_OR_RETURN(x, Padded(n, x, &w, -kLargestPixel));
  }
  return Give(n, row, "pool2d", {{x}},
              {{"pooling_type", std::string(max ? "max" : "avg")},
               {"ksize", w.kernel},
               {"strides", w.strides},
               {"paddings", w.begins},
               {"exclusive", !with_pads}});
}
Status MaxPool(const Node& n) { return Pool(n, true); }
Status AveragePool(const Node& n) { return Pool(n, false); }

Status GlobalPool(const Node& n, const char* type) {
  bool row = false;
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(x, AsImage(n, x, &row));
  return Give(n, row, "pool2d", {{x}},
              {{"pooling_type", std::string(type)}, {"global_pooling", true}});
}
Status GlobalMaxPool(const Node& n) { return GlobalPool(n, "max"); }
Status GlobalAveragePool(const Node& n) { return GlobalPool(n, "avg"); }

constexpr ReadRow kReadImageRows[] = {
    {"AveragePool", AveragePool},     {"Conv", Conv},
    {"ConvTranspose", ConvTranspose}, {"GlobalAveragePool", GlobalAveragePool},
    {"GlobalMaxPool", GlobalMaxPool}, {"MaxPool", MaxPool},
};

}  // namespace

std::span<const ReadRow> ImageReaders() { return kReadImageRows; }

}  // namespace tandem::onnx
