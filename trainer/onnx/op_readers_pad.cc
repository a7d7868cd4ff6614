// Reads the ONNX nodes Pad and Tile. Pad adds lines at the ends of dimensions. A line is a slice of
// size 1 along a dimension, such as a row or a column. Tile repeats the tensor along dimensions.
#include <algorithm>

#include "onnx/onnx.pb.h"
#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/op_readers_elements.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

// Maximum number of added lines at one end of a dimension (Pad), and of repetitions (Tile).
constexpr int64_t kLinesMax = 1 << 16;

// The numbers of lines that a Pad adds at the beginning and at the end of each dimension. `mode`:
// "constant" (each added line consists of `number`) or "edge" (each added line is a copy of the
// nearest line).
struct Pads {
  Ints begins, ends;
  std::string mode;
  double number = 0;
};

// Returns the pads of a Pad node. ONNX lists the numbers for the beginning of all axes first, then
// the numbers for the end of all axes.
StatusOr<Pads> PadsOf(const Node& n, int rank) {
  Ints given = n.attributes().Ints("pads", {});
  if (n.has(1)) {
    TD_ASSIGN_OR_RETURN(given, n.ConstantInts(1));
  }
  Ints axes(static_cast<size_t>(rank));
  for (size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<int64_t>(d);
  if (n.has(3)) {
    TD_ASSIGN_OR_RETURN(axes, n.ConstantInts(3));
  }
  if (given.size() != 2 * axes.size())
    return InvalidArgument("the node has %d pads, expected %d [TD2108]", given.size(),
                           2 * axes.size());
  Pads pads{.begins = Ints(static_cast<size_t>(rank)),
            .ends = Ints(static_cast<size_t>(rank)),
            .mode = n.attributes().Text("mode", "constant")};
  for (size_t i = 0; i < axes.size(); ++i) {
    TD_ASSIGN_OR_RETURN(const int64_t axis, NonNegativeAxis(axes[i], rank));
    pads.begins[static_cast<size_t>(axis)] = given[i];
    pads.ends[static_cast<size_t>(axis)] = given[axes.size() + i];
  }
  pads.number = n.attributes().Float("value", 0);
  if (n.has(2)) {
    const float* const number = n.Scalar(2);
    if (number == nullptr)
      return Unimplemented(
          "the number of the pad is computed by a node or an integer, but must be a constant float "
          "[TD7015]");
    pads.number = *number;
  }
  return pads;
}

Status CheckPads(const Pads& pads, const Ints& sizes) {
  if (pads.mode != "constant" && pads.mode != "edge") {
    return Unimplemented(
        "the mode \"%s\" of a pad is not supported, expected constant or edge [TD7015]; hint: use "
        "nn.ZeroPad2d or nn.ReplicationPad2d",
        pads.mode);
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    for (const int64_t lines : {pads.begins[d], pads.ends[d]}) {
      if (lines < 0 || lines > kLinesMax)
        return Unimplemented("a pad of %d is not supported, expected 0 to %d [TD7015]", lines,
                             kLinesMax);
      if (lines > 0 && IsBatch(sizes[d]))
        return Unimplemented("the batch, dimension %d, cannot be padded [TD1214]", d);
    }
  }
  return OkStatus();
}

// Returns `count` lines to add at one end of `axis`: copies of the last line of `x` if `end` is
// true, otherwise of the first line. In the mode constant, all elements of the lines are
// `pads.number`. These elements are computed as line * 0 + number, so the gradient of `x` is 0. The
// line is first clipped to 0, because infinity * 0 would be NaN.
StatusOr<std::string> Lines(const Node& n, const std::string& x, int64_t axis, int64_t size,
                            bool end, const Pads& pads, int64_t count) {
  const int64_t first = end ? size - 1 : 0;
  TD_ASSIGN_OR_RETURN(
      std::string line,
      n.Temp("slice", {{x}},
             {{"axes", Ints{axis}}, {"starts", Ints{first}}, {"ends", Ints{first + 1}}}));
  if (pads.mode == "constant") {
    TD_ASSIGN_OR_RETURN(line, n.Temp("clip", {{line}}, {{"min", 0.0}, {"max", 0.0}}));
    TD_ASSIGN_OR_RETURN(line, n.Temp("scale", {{line}}, {{"scale", 0.0}, {"bias", pads.number}}));
  }
  return Repeated(n, line, axis, count);
}

Status Pad(const Node& n) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(const Pads pads, PadsOf(n, static_cast<int>(sizes.size())));
  TD_RETURN_IF_ERROR(CheckPads(pads, sizes));
  const bool none = pads.begins == Ints(sizes.size()) && pads.ends == Ints(sizes.size());
  if (!none && n.graph().program().Desc(x).dtype != DType::kF32)
    return Unimplemented("a pad of integers is not supported [TD7015]");
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto axis = static_cast<int64_t>(d);
    Slots parts = {{x}};
    if (pads.begins[d] > 0) {
      TD_ASSIGN_OR_RETURN(const std::string lines,
                          Lines(n, x, axis, sizes[d], /*end=*/false, pads, pads.begins[d]));
      parts[0].insert(parts[0].begin(), lines);
    }
    if (pads.ends[d] > 0) {
      TD_ASSIGN_OR_RETURN(const std::string lines,
                          Lines(n, x, axis, sizes[d], /*end=*/true, pads, pads.ends[d]));
      parts[0].push_back(lines);
    }
    if (parts[0].size() == 1) continue;
    TD_ASSIGN_OR_RETURN(x, n.Temp("concat", parts, {{"axis", axis}}));
  }
  return n.Is(x);
}

Status Tile(const Node& n) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(const Ints times, n.ConstantInts(1));
  if (times.size() != sizes.size())
    return InvalidArgument("the node has %d repetitions for %d dimensions [TD2108]", times.size(),
                           sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (times[d] == 1) continue;
    if (times[d] < 1 || times[d] > kLinesMax)
      return Unimplemented("%d repetitions are not supported, expected 1 to %d [TD7015]", times[d],
                           kLinesMax);
    if (IsBatch(sizes[d]))
      return Unimplemented("the batch, dimension %d, cannot be repeated [TD1214]", d);
    TD_ASSIGN_OR_RETURN(x, Repeated(n, x, static_cast<int64_t>(d), times[d]));
  }
  return n.Is(x);
}

constexpr ReadRow kReadPadRows[] = {{"Pad", Pad}, {"Tile", Tile}};

}  // namespace

std::span<const ReadRow> PadReaders() { return kReadPadRows; }

}  // namespace tandem::onnx
