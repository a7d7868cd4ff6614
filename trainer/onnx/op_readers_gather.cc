// Reads Gather nodes: lookups in tables, and selections of elements.
#include <algorithm>

#include "trainer/onnx/evaluate.h"
#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/op_readers_known.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

constexpr size_t kPartsMax = 64;  // maximum number of ranges of elements that a Gather selects

Ints NumbersOf(const Tensor& tensor) {
  if (tensor.dtype() == DType::kI64)
    return {tensor.span<int64_t>().begin(), tensor.span<int64_t>().end()};
  return {tensor.span<int32_t>().begin(), tensor.span<int32_t>().end()};
}

// Returns the ranges [begin, end) of consecutive indices.
std::vector<std::pair<int64_t, int64_t>> RangesOf(const Ints& at) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const int64_t index : at) {
    if (ranges.empty() || ranges.back().second != index) ranges.emplace_back(index, index);
    ++ranges.back().second;
  }
  return ranges;
}

// Selects the elements `at` of dimension `axis` of `x`.
StatusOr<std::string> Chosen(const Node& n, const std::string& x, int64_t axis, const Ints& at) {
  Slots parts(1);
  for (const auto& [begin, end] : RangesOf(at)) {
    if (parts[0].size() == kPartsMax)
      return Unimplemented(
          "the selected elements form more than %d ranges, which is supported only for rows of a "
          "table of two dimensions [TD7015]",
          kPartsMax);
    TD_ASSIGN_OR_RETURN(
        parts[0].emplace_back(),
        n.Temp("slice", {{x}},
               {{"axes", Ints{axis}}, {"starts", Ints{begin}}, {"ends", Ints{end}}}));
  }
  if (parts[0].empty()) return Unimplemented("the node selects no elements [TD7015]");
  return parts[0].size() == 1 ? parts[0][0] : n.Temp("concat", parts, {{"axis", axis}});
}

// Selects the rows `at` of the table `x`, [rows, dim].
StatusOr<std::string> Rows(const Node& n, const std::string& x, const Ints& at) {
  TD_ASSIGN_OR_RETURN(const Tensor ids,
                      n.graph().known().NewTensor(DType::kI64, {static_cast<int64_t>(at.size())}));
  std::copy(at.begin(), at.end(), ids.span<int64_t>().begin());
  TD_ASSIGN_OR_RETURN(const std::string state, n.graph().AddIds(n.out() + ".ids", ids));
  return n.Temp("lookup_table", {{state}, {x}}, {{"squeeze_last", false}});
}

// Returns `sizes` with the dimensions of `ids` in place of dimension `axis`.
Ints Replaced(Ints sizes, int64_t axis, const KnownValue& ids) {
  const auto many = ids.tensor.shape().dims();
  sizes.erase(sizes.begin() + axis);
  sizes.insert(sizes.begin() + axis, many.begin(), many.end());
  return sizes;
}

// Selects elements by known indices. Each sample selects the same elements.
Status ByConstants(const Node& n, const KnownValue& ids) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(const int64_t axis, NonNegativeAxis(n.attributes().Int("axis", 0),
                                                          static_cast<int>(sizes.size())));
  const int64_t size = sizes[static_cast<size_t>(axis)];
  if (IsBatch(size))
    return Unimplemented("samples of the batch cannot be selected by index [TD1214]");
  Ints at = NumbersOf(ids.tensor);
  for (int64_t& index : at) {
    if (index < -size || index >= size)
      return InvalidArgument("element %d does not exist: the dimension has %d elements [TD2108]",
                             index, size);
    if (index < 0) index += size;
  }
  const bool table = axis == 0 && sizes.size() == 2 && !IsBatch(sizes[1]) &&
                     n.graph().program().Desc(x).dtype == DType::kF32;
  const bool rows = table && RangesOf(at).size() > 1;
  TD_ASSIGN_OR_RETURN(const std::string chosen, rows ? Rows(n, x, at) : Chosen(n, x, axis, at));
  sizes = Replaced(std::move(sizes), axis, ids);
  if (ids.batch < 0) return n.Reshape(chosen, sizes);
  if (std::any_of(sizes.begin(), sizes.end(), IsBatch))
    return Unimplemented("two dimensions of the result depend on the batch [TD1214]");
  sizes[static_cast<size_t>(axis + ids.batch)] = kBatch + 1;
  return Repeat(n, chosen, sizes);
}

// Selects elements of the first dimension of X, which has several numbers for each sample. Each
// sample selects its own numbers: the index is the sample's first number plus a constant.
Status OfSamples(const Node& n, const KnownValue& ids) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  TD_RETURN_IF_ERROR(n.attributes().Only("axis", 0));
  const int64_t times = !sizes.empty() && IsBatch(sizes[0]) ? sizes[0] - kBatch : 0;
  const Ints at = NumbersOf(ids.tensor);
  const bool own =
      times > 0 && ids.batch >= 0 && ids.tensor.shape().numel(0, ids.batch) == 1 &&
      std::all_of(ids.slopes.begin(), ids.slopes.end(), [&](int64_t s) { return s == times; }) &&
      std::all_of(at.begin(), at.end(), [&](int64_t i) { return i >= 0 && i < times; });
  if (!own) return Unimplemented("a sample selects numbers of other samples [TD1214]");
  Ints apart = sizes;
  apart[0] = times;
  apart.insert(apart.begin(), kBatch + 1);
  TD_ASSIGN_OR_RETURN(x, n.TempReshape(x, apart));
  TD_ASSIGN_OR_RETURN(x, Chosen(n, x, 1, at));
  sizes = Replaced(std::move(sizes), 0, ids);
  sizes[static_cast<size_t>(ids.batch)] = kBatch + 1;
  return n.Reshape(x, sizes);
}

// Looks rows of a table up by indices that a node computes.
Status Lookup(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string w, n.in(0));
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.graph().program().Sizes(w));
  if (sizes.size() != 2 || IsBatch(sizes[0]) || IsBatch(sizes[1]) ||
      n.attributes().Int("axis", 0) != 0) {
    return Unimplemented(
        "a Gather with computed indices is supported only from a constant table of two dimensions "
        "[TD7015]");
  }
  TD_ASSIGN_OR_RETURN(std::string ids, n.in(1));
  if (n.graph().program().Desc(ids).dtype != DType::kI64) {
    TD_ASSIGN_OR_RETURN(ids, n.Temp("cast", {{ids}}, {{"out_dtype", std::string("i64")}}));
  }
  return n.Done("lookup_table", {{ids}, {w}}, {{"squeeze_last", false}});
}

Status Gather(const Node& n) {
  if (!n.has(0) || !n.has(1))
    return InvalidArgument("an input of the node is missing, expected 2 inputs [TD2108]");
  const KnownValue* ids = n.graph().known().Get(n.value(1));
  if (ids == nullptr) return Lookup(n);
  if (ids->tensor.dtype() == DType::kF32)
    return InvalidArgument("input \"%s\" must contain integers [TD2108]", n.value(1));
  return ids->slopes.empty() ? ByConstants(n, *ids) : OfSamples(n, *ids);
}

// Looks numbers of a list up by computed indices. The list may have further dimensions of size 1
// and be repeated for each sample. RoBERTa reads the kinds of its words like this.
Status GatherElements(const Node& n) {
  const KnownValue* list = n.has(0) ? n.graph().known().Get(n.value(0)) : nullptr;
  TD_ASSIGN_OR_RETURN(std::string ids, n.in(1));
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.graph().program().Sizes(ids));
  const auto table =
      list == nullptr ? std::nullopt : n.graph().known().Table(n.value(0), kEvaluatedMax);
  const int rank = table ? table->shape.rank() : 0;
  TD_ASSIGN_OR_RETURN(const int64_t axis, NonNegativeAxis(n.attributes().Int("axis", 0),
                                                          static_cast<int>(sizes.size())));
  if (!table || rank != static_cast<int>(sizes.size()) || !list->slopes.empty() ||
      table->shape.numel() != table->shape[static_cast<int>(axis)]) {
    return Unimplemented(
        "GatherElements with computed indices is supported only from a constant list [TD7015]");
  }
  TD_ASSIGN_OR_RETURN(Tensor column,
                      n.graph().known().NewTensor(DType::kF32, {table->shape.numel(), 1}));
  std::transform(table->numbers.begin(), table->numbers.end(), column.span<float>().begin(),
                 [&](const auto& v) {
                   return table->whole ? static_cast<float>(v.whole) : static_cast<float>(v.number);
                 });
  n.graph().known().Add(n.out() + ".column", std::move(column));
  TD_ASSIGN_OR_RETURN(const std::string w, n.graph().Var(n.out() + ".column"));
  if (n.graph().program().Desc(ids).dtype != DType::kI64) {
    TD_ASSIGN_OR_RETURN(ids, n.Temp("cast", {{ids}}, {{"out_dtype", std::string("i64")}}));
  }
  TD_ASSIGN_OR_RETURN(const std::string found,
                      n.Temp("lookup_table", {{ids}, {w}}, {{"squeeze_last", false}}));
  return n.Reshape(found, sizes);
}

constexpr ReadRow kReadGatherRows[] = {{"Gather", Gather}, {"GatherElements", GatherElements}};

}  // namespace

std::span<const ReadRow> GatherReaders() { return kReadGatherRows; }

}  // namespace tandem::onnx
