// Reads the ONNX node Resize. Along each dimension whose size changes, the resize is a product with
// a matrix of weights, which is known while the model is read.
#include <algorithm>
#include <cmath>

#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Maximum number of elements of a resize matrix.
constexpr int64_t kMatrixNumbersMax = int64_t{1} << 24;

Status Form(const char* what) {
  return Unimplemented(
      "%s is not supported [TD7015]; hint: use nn.Upsample with an integer factor, or with "
      "mode=\"linear\" or \"bilinear\"",
      what);
}

// The number of lines in one dimension before and after the resize.
struct Change {
  int64_t from = 1, to = 1;
  double factor = 1;
};

// Returns the position of the new line `line` among the old lines.
double PlaceOf(const std::string& mode, const Change& c, int64_t line) {
  const auto at = static_cast<double>(line);
  if (mode == "asymmetric") return at / c.factor;
  if (mode != "half_pixel" && c.to == 1) return 0;
  if (mode == "align_corners") {
    return at * static_cast<double>(c.from - 1) / static_cast<double>(c.to - 1);
  }
  return (at + 0.5) / c.factor - 0.5;
}

// Fills the matrix [from, to] with the weight of each old line in each new line. Without `linear`
// (nearest lines) each old line is repeated; the caller has checked that the factor is an integer.
void Fill(const Change& c, const std::string& mode, bool linear, std::span<float> matrix) {
  std::fill(matrix.begin(), matrix.end(), 0.0f);
  const auto last = static_cast<double>(c.from - 1);
  for (int64_t line = 0; line < c.to; ++line) {
    const double place = std::clamp(PlaceOf(mode, c, line), 0.0, last);
    const double first = linear ? std::floor(place) : static_cast<double>(line / (c.to / c.from));
    const double share = linear ? place - first : 0;
    const auto add = [&](double row, double number) {
      matrix[static_cast<size_t>(static_cast<int64_t>(row) * c.to + line)] +=
          static_cast<float>(number);
    };
    add(first, 1 - share);
    if (share > 0) add(first + 1, share);
  }
}

// Returns the changes of the dimensions of X. The node contains the changes as factors or as sizes.
StatusOr<std::vector<Change>> ChangesOf(const Node& n, const Shape& x) {
  const Tensor* factors = n.has(2) ? n.graph().known().Find(n.value(2)) : nullptr;
  const bool sized = factors == nullptr || factors->numel() == 0;
  const Tensor* known = sized && n.has(3) ? n.graph().known().Find(n.value(3)) : factors;
  const bool fits = known != nullptr && known->shape() == Shape({int64_t{x.rank()}}) &&
                    known->dtype() == (sized ? DType::kI64 : DType::kF32);
  if (!fits || x.rank() < 3)
    return Form("a resize with computed sizes, or without a size for each dimension,");
  std::vector<Change> changes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    Change c{.from = x[axis], .to = x[axis]};
    if (sized && axis > 0) {
      c.to = known->span<int64_t>()[at];
      c.factor = static_cast<double>(c.to) / static_cast<double>(c.from);
    } else if (!sized) {
      c.factor = known->span<float>()[at];
      const double to = std::floor(c.factor * static_cast<double>(c.from));
      if (!(to >= 1 && to <= static_cast<double>(kMatrixNumbersMax)))
        return Form("a resize to a size out of range");
      c.to = static_cast<int64_t>(to);
    }
    if (axis < 2 && c.to != c.from) return Form("a resize of the number of samples or channels");
    if (c.to < 1 || c.to > kMatrixNumbersMax / c.from)
      return Form("a resize to a size out of range");
    changes.push_back(c);
  }
  return changes;
}

// Resizes `x` along dimension `axis`.
StatusOr<std::string> Along(const Node& n, std::string x, int axis, const Change& c,
                            const std::string& mode, bool linear) {
  TD_ASSIGN_OR_RETURN(Tensor matrix, n.graph().known().NewTensor(DType::kF32, {c.from, c.to}));
  Fill(c, mode, linear, matrix.span<float>());
  const std::string value = absl::StrFormat("%s.lines%d", n.out(), axis);
  n.graph().known().Add(value, std::move(matrix));
  TD_ASSIGN_OR_RETURN(const std::string lines, n.graph().Var(value));
  Ints turn;
  for (int d = 0; d < n.graph().program().Desc(x).shape.rank(); ++d) turn.push_back(d);
  std::swap(turn[static_cast<size_t>(axis)], turn.back());
  const bool turned = axis + 1 < static_cast<int>(turn.size());
  if (turned) {
    TD_ASSIGN_OR_RETURN(x, n.Temp("transpose", {{x}}, {{"axis", turn}}));
  }
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(const Ints rows, FillSizes(n.graph().program(), x, {-1, c.from}));
  TD_ASSIGN_OR_RETURN(x, n.TempReshape(x, rows));
  TD_ASSIGN_OR_RETURN(x, n.Temp("fc", {{x}, {lines}, {}}));
  sizes.back() = c.to;
  TD_ASSIGN_OR_RETURN(x, n.TempReshape(x, sizes));
  return turned ? n.Temp("transpose", {{x}}, {{"axis", turn}}) : x;
}

// Checks that all ways of rounding give the same nearest line. UNIMPLEMENTED: they do not.
Status CheckNearest(const Node& n, const std::string& mode, const Change& c) {
  const std::string rounding = n.attributes().Text("nearest_mode", "round_prefer_floor");
  const bool agrees = mode == "asymmetric" ? rounding == "floor"
                                           : mode == "half_pixel" && rounding.starts_with("round");
  if (agrees && c.to % c.from == 0) return OkStatus();
  return Form("a resize with mode nearest and a fractional factor");
}

Status Resize(const Node& n) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  const Shape shape = n.graph().program().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(const auto batch, n.graph().program().BatchOf(x));
  if (batch && batch->axis >= 2) return Form("a resize along the batch");
  TD_ASSIGN_OR_RETURN(const std::vector<Change> changes, ChangesOf(n, shape));
  const std::string mode = n.attributes().Text("coordinate_transformation_mode", "half_pixel");
  const std::string kind = n.attributes().Text("mode", "nearest");
  const bool linear = kind == "linear";
  const bool known = mode == "half_pixel" || mode == "pytorch_half_pixel" || mode == "asymmetric" ||
                     mode == "align_corners";
  if ((!linear && kind != "nearest") || !known || n.attributes().Find("axes") != nullptr) {
    return Form("a resize with axes, or with a mode other than nearest and linear,");
  }
  for (const char* name : {"antialias", "exclude_outside"})
    TD_RETURN_IF_ERROR(n.attributes().Only(name, 0));
  for (const char* name : {"cubic_coeff_a", "extrapolation_value"}) n.attributes().Float(name, 0);
  for (const char* name : {"keep_aspect_ratio_policy", "nearest_mode"})
    n.attributes().Text(name, "");
  for (int axis = 2; axis < shape.rank(); ++axis) {
    const Change& c = changes[static_cast<size_t>(axis)];
    if (!linear) TD_RETURN_IF_ERROR(CheckNearest(n, mode, c));
    if (c.to == c.from && c.factor == 1) continue;
    TD_ASSIGN_OR_RETURN(x, Along(n, x, axis, c, mode, linear));
  }
  return n.Is(x);
}

constexpr ReadRow kReadResizeRows[] = {{"Resize", Resize}};

}  // namespace

std::span<const ReadRow> ResizeReaders() { return kReadResizeRows; }

}  // namespace tandem::onnx
