#include "trainer/onnx/evaluate_moves.h"

#include <algorithm>
#include <numeric>

#include "common/base/require.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;

Status Missing(size_t input) { return InvalidArgument("input %d is missing [TD2108]", input); }

// Returns whether the node has input `i`.
bool Has(const std::vector<KnownTable>& in, size_t i) {
  return i < in.size() && (!in[i].numbers.empty() || in[i].shape.rank() > 0);
}

// Returns the numbers of `table` as integers. nullopt: a number is a fraction, or depends on the
// batch.
std::optional<Ints> PlainOf(const KnownTable& table) {
  auto list = ListOf(table);
  if (list && std::any_of(list->begin(), list->end(), IsBatch)) return std::nullopt;
  return list;
}

// Returns a table of shape `shape` whose element i is element source(i) of `from`.
template <typename Source>
Evaluated Moved(const KnownTable& from, const Shape& shape, int batch, const Source& source) {
  if (shape.numel() > kEvaluatedMax) return std::nullopt;
  KnownTable out{
      .whole = from.whole, .wide = from.wide, .shape = shape, .batch = batch, .numbers = {}};
  out.numbers.reserve(static_cast<size_t>(shape.numel()));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t at = source(i);
    TD_REQUIRE(at >= 0 && at < static_cast<int64_t>(from.numbers.size()));
    out.numbers.push_back(from.numbers[static_cast<size_t>(at)]);
  }
  return out;
}

// The indices of element `i` of a tensor of shape `shape`.
Ints IndicesOf(const Shape& shape, int64_t i) {
  Ints at(static_cast<size_t>(shape.rank()));
  for (int d = shape.rank(); d-- > 0; i /= shape[d]) at[static_cast<size_t>(d)] = i % shape[d];
  return at;
}

int64_t OffsetOf(const Shape& shape, const Ints& at) {
  int64_t offset = 0;
  for (int d = 0; d < shape.rank(); ++d) offset = offset * shape[d] + at[static_cast<size_t>(d)];
  return offset;
}

// Returns the shape with the sizes `sizes`, in which 1 stands for the batch, and the dimension of
// the batch. nullopt: a size is a multiple of the batch, or two sizes depend on the batch.
StatusOr<std::optional<JointShape>> ShapeOf(const Ints& sizes) {
  JointShape joint;
  Ints dims;
  for (const int64_t size : sizes) {
    if (IsBatch(size)) {
      if (size != kBatch + 1 || joint.batch >= 0) return std::nullopt;
      joint.batch = static_cast<int>(dims.size());
    }
    dims.push_back(IsBatch(size) ? 1 : size);
  }
  TD_ASSIGN_OR_RETURN(joint.shape, ParseShape(dims));
  return joint;
}

Evaluated Identity(const Node&, std::vector<KnownTable>& in) { return std::move(in[0]); }

// Gives the table another shape. The numbers in front of the batch must stay in front of the batch.
Evaluated Reshaped(KnownTable table, const Ints& sizes) {
  TD_ASSIGN_OR_RETURN(const auto joint, ShapeOf(sizes));
  if (!joint || joint->shape.numel() != table.shape.numel()) return std::nullopt;
  if ((joint->batch >= 0) != (table.batch >= 0)) return std::nullopt;
  if (joint->batch >= 0 &&
      joint->shape.numel(0, joint->batch) != table.shape.numel(0, table.batch)) {
    return std::nullopt;
  }
  table.shape = joint->shape;
  table.batch = joint->batch;
  return table;
}

Ints SizesOf(const KnownTable& table) {
  Ints sizes(table.shape.dims().begin(), table.shape.dims().end());
  if (table.batch >= 0) sizes[static_cast<size_t>(table.batch)] = kBatch + 1;
  return sizes;
}

Evaluated Reshape(const Node& n, std::vector<KnownTable>& in) {
  if (!Has(in, 1)) return Missing(1);
  auto wanted = ListOf(in[1]);
  if (!wanted || n.attributes().Int("allowzero", 0) != 0) return std::nullopt;
  const Ints from = SizesOf(in[0]);
  std::optional<size_t> open;
  int64_t rest = 1;
  bool sized = false;
  for (size_t i = 0; i < wanted->size(); ++i) {
    int64_t& size = (*wanted)[i];
    if (size == 0 && i < from.size()) size = from[i];
    if (size == -1) open = i;
    sized = sized || IsBatch(size);
    if (size != -1 && !IsBatch(size) && (size < 1 || __builtin_mul_overflow(rest, size, &rest)))
      return std::nullopt;
  }
  if (open) {
    const int64_t size = in[0].shape.numel() / rest;
    const bool batch = in[0].batch >= 0 && !sized;
    if (batch && size != 1) return std::nullopt;
    (*wanted)[*open] = batch ? kBatch + 1 : size;
  }
  return Reshaped(std::move(in[0]), *wanted);
}

// Returns the axes of the node, sorted. The axes are the attribute `axes` or input 1. nullopt: the
// node has neither.
StatusOr<std::optional<Ints>> AxesOf(const Node& n, const std::vector<KnownTable>& in,
                                     size_t rank) {
  std::optional<Ints> axes;
  if (n.attributes().Find("axes") != nullptr) axes = n.attributes().Ints("axes", {});
  if (Has(in, 1)) axes = PlainOf(in[1]);
  if (!axes) return axes;
  for (int64_t& axis : *axes) {
    TD_ASSIGN_OR_RETURN(axis, NonNegativeAxis(axis, static_cast<int>(rank)));
  }
  std::sort(axes->begin(), axes->end());
  return axes;
}

Evaluated Unsqueeze(const Node& n, std::vector<KnownTable>& in) {
  Ints sizes = SizesOf(in[0]);
  const size_t more = Has(in, 1) ? in[1].numbers.size() : n.attributes().Ints("axes", {}).size();
  if (sizes.size() + more > Shape::kRankMax) return std::nullopt;
  TD_ASSIGN_OR_RETURN(const auto axes, AxesOf(n, in, sizes.size() + more));
  if (!axes) return std::nullopt;
  for (const int64_t axis : *axes) {
    if (axis > static_cast<int64_t>(sizes.size()))
      return InvalidArgument("axis %d does not exist [TD2108]", axis);
    sizes.insert(sizes.begin() + axis, 1);
  }
  return Reshaped(std::move(in[0]), sizes);
}

Evaluated Squeeze(const Node& n, std::vector<KnownTable>& in) {
  const Ints sizes = SizesOf(in[0]);
  TD_ASSIGN_OR_RETURN(const auto axes, AxesOf(n, in, sizes.size()));
  Ints left;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool named = axes && std::find(axes->begin(), axes->end(), d) != axes->end();
    if (named && sizes[d] != 1) return std::nullopt;
    if (!named && (axes || sizes[d] != 1)) left.push_back(sizes[d]);
  }
  return Reshaped(std::move(in[0]), left);
}

Evaluated Transpose(const Node& n, std::vector<KnownTable>& in) {
  const Shape from = in[0].shape;
  Ints order(static_cast<size_t>(from.rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  order = n.attributes().Ints("perm", order);
  Ints sorted = order, all(static_cast<size_t>(from.rank()));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) return InvalidArgument("perm does not name each dimension once [TD2108]");
  Shape shape = from;
  int batch = -1;
  for (int d = 0; d < from.rank(); ++d) {
    const auto axis = static_cast<int>(order[static_cast<size_t>(d)]);
    shape[d] = from[axis];
    if (axis == in[0].batch) batch = d;
  }
  return Moved(in[0], shape, batch, [&](int64_t i) {
    const Ints at = IndicesOf(shape, i);
    Ints old(at.size());
    for (size_t d = 0; d < at.size(); ++d) old[static_cast<size_t>(order[d])] = at[d];
    return OffsetOf(from, old);
  });
}

Evaluated Concat(const Node& n, std::vector<KnownTable>& in) {
  const Shape first = in[0].shape;
  TD_ASSIGN_OR_RETURN(const int64_t at,
                      NonNegativeAxis(n.attributes().Int("axis", 0), first.rank()));
  const auto axis = static_cast<int>(at);
  Shape shape = first;
  shape[axis] = 0;
  for (const KnownTable& part : in) {
    if (part.shape.rank() != first.rank() || part.whole != in[0].whole)
      return InvalidArgument("the inputs differ in type or number of dimensions [TD2108]");
    if (part.batch != in[0].batch || part.batch == axis) return std::nullopt;
    for (int d = 0; d < first.rank(); ++d) {
      if (d != axis && part.shape[d] != first[d])
        return InvalidArgument("the inputs have different sizes [TD2108]");
    }
    shape[axis] += part.shape[axis];
  }
  if (shape.numel() > kEvaluatedMax) return std::nullopt;
  KnownTable out{.whole = in[0].whole,
                 .wide = in[0].wide,
                 .shape = shape,
                 .batch = in[0].batch,
                 .numbers = {}};
  for (int64_t row = 0; row < first.numel(0, axis); ++row) {
    for (const KnownTable& part : in) {
      const int64_t length = part.shape.numel(axis, first.rank());
      const auto begin = part.numbers.begin() + row * length;
      out.numbers.insert(out.numbers.end(), begin, begin + length);
    }
  }
  return out;
}

// The elements start, start + step, ... of dimension `axis`; `count` elements.
Evaluated Strided(const KnownTable& from, int axis, int64_t start, int64_t step, int64_t count) {
  Shape shape = from.shape;
  shape[axis] = count;
  return Moved(from, shape, from.batch, [&](int64_t i) {
    Ints at = IndicesOf(shape, i);
    int64_t& index = at[static_cast<size_t>(axis)];
    index = start + index * step;
    return OffsetOf(from.shape, at);
  });
}

Evaluated Slice(const Node& n, std::vector<KnownTable>& in) {
  std::optional<Ints> given[4] = {n.attributes().Ints("starts", {}),
                                  n.attributes().Ints("ends", {}), n.attributes().Ints("axes", {}),
                                  Ints{}};
  for (size_t i = 1; i < std::min<size_t>(in.size(), 5); ++i) {
    if (Has(in, i)) given[i - 1] = PlainOf(in[i]);
    if (!given[i - 1]) return std::nullopt;
  }
  Ints &starts = *given[0], &ends = *given[1], &axes = *given[2], &steps = *given[3];
  for (size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  steps.resize(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size())
    return InvalidArgument("axes, starts and ends must have the same length [TD2108]");
  KnownTable table = std::move(in[0]);
  for (size_t i = 0; i < starts.size(); ++i) {
    TD_ASSIGN_OR_RETURN(const int64_t at, NonNegativeAxis(axes[i], table.shape.rank()));
    const auto axis = static_cast<int>(at);
    const int64_t size = table.shape[axis];
    const int64_t step = std::clamp<int64_t>(steps[i], -INT32_MAX, INT32_MAX);
    if (step == 0) return InvalidArgument("the step of a slice is 0 [TD2108]");
    if (size == 0) continue;
    if (axis == table.batch) {
      if (starts[i] == 0 && step == 1 && ends[i] >= INT32_MAX) continue;
      return std::nullopt;
    }
    const auto place = [&](int64_t index, int64_t low, int64_t high) {
      return std::clamp<int64_t>(index < 0 && index >= -size ? index + size : index, low, high);
    };
    const int64_t first = step > 0 ? place(starts[i], 0, size) : place(starts[i], 0, size - 1);
    const int64_t last = step > 0          ? place(ends[i], 0, size)
                         : ends[i] < -size ? -1
                                           : place(ends[i], 0, size);
    const int64_t span = step > 0 ? last - first : first - last, stride = std::abs(step);
    const int64_t count = span > 0 ? (span - 1) / stride + 1 : 0;
    TD_ASSIGN_OR_RETURN(auto cut, Strided(table, axis, first, step, count));
    if (!cut) return std::nullopt;
    table = *std::move(cut);
  }
  return table;
}

Status NoElement(int64_t index, int64_t size) {
  return InvalidArgument("element %d does not exist: the dimension has %d elements [TD2108]", index,
                         size);
}

Evaluated Gather(const Node& n, std::vector<KnownTable>& in) {
  if (!Has(in, 1)) return Missing(1);
  const auto ids = PlainOf(in[1]);
  const Shape from = in[0].shape, many = in[1].shape;
  TD_ASSIGN_OR_RETURN(const int64_t at,
                      NonNegativeAxis(n.attributes().Int("axis", 0), from.rank()));
  const auto axis = static_cast<int>(at);
  if (!ids || axis == in[0].batch || from.rank() - 1 + many.rank() > Shape::kRankMax)
    return std::nullopt;
  Ints dims(from.dims().begin(), from.dims().begin() + axis);
  dims.insert(dims.end(), many.dims().begin(), many.dims().end());
  dims.insert(dims.end(), from.dims().begin() + axis + 1, from.dims().end());
  TD_ASSIGN_OR_RETURN(const Shape shape, ParseShape(dims));
  for (const int64_t id : *ids) {
    if (id < -from[axis] || id >= from[axis]) return NoElement(id, from[axis]);
  }
  const int batch = in[0].batch > axis ? in[0].batch + many.rank() - 1 : in[0].batch;
  const int64_t inner = from.numel(axis + 1, from.rank()), count = many.numel();
  return Moved(in[0], shape, batch, [&](int64_t i) {
    const int64_t outer = i / inner / count, id = (*ids)[static_cast<size_t>(i / inner % count)];
    return (outer * from[axis] + (id < 0 ? id + from[axis] : id)) * inner + i % inner;
  });
}

Evaluated GatherElements(const Node& n, std::vector<KnownTable>& in) {
  if (!Has(in, 1)) return Missing(1);
  const auto ids = PlainOf(in[1]);
  const Shape from = in[0].shape, shape = in[1].shape;
  TD_ASSIGN_OR_RETURN(const int64_t axis,
                      NonNegativeAxis(n.attributes().Int("axis", 0), from.rank()));
  if (!ids || in[0].batch >= 0) return std::nullopt;
  if (shape.rank() != from.rank())
    return InvalidArgument("the inputs differ in the number of dimensions [TD2108]");
  const int64_t size = from[static_cast<int>(axis)];
  for (const int64_t id : *ids) {
    if (id < -size || id >= size) return NoElement(id, size);
  }
  for (int d = 0; d < from.rank(); ++d) {
    if (d != axis && shape[d] > from[d]) return NoElement(shape[d], from[d]);
  }
  return Moved(in[0], shape, -1, [&](int64_t i) {
    Ints at = IndicesOf(shape, i);
    const int64_t id = (*ids)[static_cast<size_t>(i)];
    at[static_cast<size_t>(axis)] = id < 0 ? id + size : id;
    return OffsetOf(from, at);
  });
}

Evaluated Expand(const Node&, std::vector<KnownTable>& in) {
  if (!Has(in, 1)) return Missing(1);
  const auto wanted = ListOf(in[1]);
  if (!wanted) return std::nullopt;
  TD_ASSIGN_OR_RETURN(const auto target, ShapeOf(*wanted));
  if (!target || target->shape.numel() > kEvaluatedMax) return std::nullopt;
  const KnownTable sides[] = {
      {.whole = in[0].whole, .shape = in[0].shape, .batch = in[0].batch, .numbers = {}},
      {.whole = in[0].whole, .shape = target->shape, .batch = target->batch, .numbers = {}}};
  TD_ASSIGN_OR_RETURN(const auto joint, JointOf(sides));
  if (!joint) return std::nullopt;
  return Moved(in[0], joint->shape, joint->batch,
               [&](int64_t i) { return BroadcastSource(in[0].shape, joint->shape, i); });
}

// Repeats the table along each dimension but the batch.
Evaluated Tile(const Node&, std::vector<KnownTable>& in) {
  const auto times = Has(in, 1) ? PlainOf(in[1]) : std::nullopt;
  const Shape from = in[0].shape;
  if (!times || static_cast<int>(times->size()) != from.rank()) return std::nullopt;
  Shape shape = from;
  for (int d = 0; d < from.rank(); ++d) {
    const int64_t count = (*times)[static_cast<size_t>(d)];
    if (count < 1 || count > kEvaluatedMax || (d == in[0].batch && count != 1)) return std::nullopt;
    shape[d] *= count;
    if (shape[d] > kEvaluatedMax || shape.numel(0, d + 1) > kEvaluatedMax) return std::nullopt;
  }
  return Moved(in[0], shape, in[0].batch, [&](int64_t i) {
    Ints at = IndicesOf(shape, i);
    for (int d = 0; d < from.rank(); ++d) at[static_cast<size_t>(d)] %= from[d];
    return OffsetOf(from, at);
  });
}

Evaluated ConstantOfShape(const Node& n, std::vector<KnownTable>& in) {
  const auto sizes = ListOf(in[0]);
  if (!sizes) return std::nullopt;
  TD_ASSIGN_OR_RETURN(const auto joint, ShapeOf(*sizes));
  if (!joint || joint->shape.numel() > kEvaluatedMax) return std::nullopt;
  KnownTable one{.whole = false, .shape = {}, .batch = -1, .numbers = {KnownNumber{}}};
  if (const auto* value = n.attributes().Find("value"); value != nullptr && value->has_t()) {
    TD_RETURN_IF_ERROR(n.graph().known().AddConstant(n.out(), value->t(), /*trained=*/false));
    auto table = n.graph().known().Table(n.out(), 1);
    if (!table || table->numbers.size() != 1)
      return InvalidArgument("attribute value has not one number [TD2108]");
    one = *std::move(table);
  }
  return Moved(one, joint->shape, joint->batch, [](int64_t) { return 0; });
}

// Computes a Range node. The range 0, 1, ... up to the batch size contains, for each sample, the
// number of the sample in the batch.
Evaluated Range(const Node&, std::vector<KnownTable>& in) {
  if (in.size() != 3 || in[0].numbers.size() != 1 || in[1].numbers.size() != 1 ||
      in[2].numbers.size() != 1) {
    return InvalidArgument("the range needs three single numbers [TD2108]");
  }
  for (const KnownTable& table : in) {
    if (!table.whole || table.batch >= 0) return std::nullopt;
  }
  const int64_t start = in[0].numbers[0].whole, limit = in[1].numbers[0].whole,
                step = in[2].numbers[0].whole;
  if (IsBatch(start) || IsBatch(step)) return std::nullopt;
  if (limit == kBatch + 1 && start == 0 && step == 1) {
    return KnownTable{.whole = true,
                      .shape = {1},
                      .batch = 0,
                      .numbers = {{.whole = 0, .number = 0, .slope = 1}}};
  }
  if (IsBatch(limit) || step == 0) return std::nullopt;
  const double span =
      (static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(step);
  if (span > static_cast<double>(kEvaluatedMax)) return std::nullopt;
  KnownTable out{.whole = true, .shape = {0}, .batch = -1, .numbers = {}};
  for (int64_t at = start; step > 0 ? at < limit : at > limit;) {
    out.numbers.push_back({.whole = at, .number = 0, .slope = 0});
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  out.shape[0] = static_cast<int64_t>(out.numbers.size());
  return out;
}

Evaluated CumSum(const Node& n, std::vector<KnownTable>& in) {
  const auto given = Has(in, 1) ? PlainOf(in[1]) : std::nullopt;
  TD_RETURN_IF_ERROR(n.attributes().Only("exclusive", 0));
  TD_RETURN_IF_ERROR(n.attributes().Only("reverse", 0));
  if (!given || given->size() != 1) return std::nullopt;
  KnownTable table = std::move(in[0]);
  TD_ASSIGN_OR_RETURN(const int64_t at, NonNegativeAxis((*given)[0], table.shape.rank()));
  const auto axis = static_cast<int>(at);
  if (axis == table.batch) return std::nullopt;
  const int64_t inner = table.shape.numel(axis + 1, table.shape.rank());
  for (int64_t i = 0; i < table.shape.numel(); ++i) {
    if (i / inner % table.shape[axis] == 0) continue;
    KnownNumber& v = table.numbers[static_cast<size_t>(i)];
    const KnownNumber& before = table.numbers[static_cast<size_t>(i - inner)];
    if (IsBatch(v.whole) || v.slope != 0 || before.slope != 0) return std::nullopt;
    const auto sum = ComputeSize('+', before.whole, v.whole);
    if (!sum) return std::nullopt;
    v.whole = *sum;
    v.number += before.number;
  }
  return table;
}

// Replaces the slices of X at the given indices.
Evaluated ScatterND(const Node& n, std::vector<KnownTable>& in) {
  if (!Has(in, 1) || in.size() != 3) return Missing(1);
  if (n.attributes().Text("reduction", "none") != "none") return std::nullopt;
  KnownTable table = std::move(in[0]);
  const auto ids = PlainOf(in[1]);
  if (!ids || table.batch >= 0 || in[2].batch >= 0 || in[2].whole != table.whole)
    return std::nullopt;
  const Shape shape = table.shape, many = in[1].shape;
  const int64_t depth = many.rank() == 0 ? 0 : many[many.rank() - 1];
  if (depth < 1 || depth > shape.rank())
    return InvalidArgument("the indices have %d numbers each [TD2108]", depth);
  const int64_t width = shape.numel(static_cast<int>(depth), shape.rank());
  if (static_cast<int64_t>(in[2].numbers.size()) != many.numel() / depth * width)
    return InvalidArgument("the indices and the new numbers differ in number [TD2108]");
  for (int64_t row = 0; row < many.numel() / depth; ++row) {
    int64_t offset = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t id = (*ids)[static_cast<size_t>(row * depth + d)];
      const int64_t size = shape[static_cast<int>(d)];
      if (id < -size || id >= size) return NoElement(id, size);
      offset = offset * size + (id < 0 ? id + size : id);
    }
    std::copy_n(in[2].numbers.begin() + row * width, width, table.numbers.begin() + offset * width);
  }
  return table;
}

constexpr EvaluateRow kMoveRows[] = {
    {"Concat", Concat},       {"ConstantOfShape", ConstantOfShape},
    {"CumSum", CumSum},       {"Expand", Expand},
    {"Gather", Gather},       {"GatherElements", GatherElements},
    {"Identity", Identity},   {"Range", Range},
    {"Reshape", Reshape},     {"ScatterND", ScatterND},
    {"Slice", Slice},         {"Squeeze", Squeeze},
    {"Tile", Tile},           {"Transpose", Transpose},
    {"Unsqueeze", Unsqueeze},
};

}  // namespace

std::span<const EvaluateRow> EvaluateMoves() { return kMoveRows; }

}  // namespace tandem::onnx
