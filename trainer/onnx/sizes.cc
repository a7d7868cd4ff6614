#include "trainer/onnx/sizes.h"

#include <algorithm>

#include "absl/strings/str_join.h"

#include "common/base/require.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;

std::optional<int64_t> Batches(int64_t times) {
  if (times < 1 || times > kBatchesMax) return std::nullopt;
  return kBatch + times;
}

// A number of elements: number * batch^batches.
struct Product {
  int64_t number = 1;
  int batches = 0;

  bool Multiply(int64_t size) {
    if (IsBatch(size)) {
      ++batches;
      size -= kBatch;
    }
    return size >= 1 && !__builtin_mul_overflow(number, size, &number);
  }
};

StatusOr<Product> ProductOf(const BatchedProgram& program, const std::string& var) {
  TD_ASSIGN_OR_RETURN(const Ints sizes, program.Sizes(var));
  Product whole;
  for (const int64_t size : sizes) {
    if (!whole.Multiply(size))
      return InvalidArgument("tensor \"%s\" has no elements [TD1213]", var);
  }
  return whole;
}

std::string TextOf(const Ints& dims) {
  return "[" +
         absl::StrJoin(dims, ",",
                       [](std::string* out, int64_t size) {
                         absl::StrAppend(out, IsBatch(size) ? size - kBatch : size,
                                         IsBatch(size) ? " batch" : "");
                       }) +
         "]";
}

// Replaces the -1 in `dims`, if there is one. Its replacement is the size with which the product of
// all sizes is `whole`.
Status FillOpen(const Product& whole, Ints& dims) {
  const auto open = std::find(dims.begin(), dims.end(), -1);
  if (open == dims.end()) return OkStatus();
  Product rest;
  for (auto it = dims.begin(); it != dims.end(); ++it) {
    if (it != open && !rest.Multiply(*it)) {
      return InvalidArgument("the shape %s contains an invalid size [TD2108]", TextOf(dims));
    }
  }
  const int batches = whole.batches - rest.batches;
  if (whole.number % rest.number != 0 || batches < 0 || batches > 1) {
    return Unimplemented(
        "the -1 in shape %s stands for a fraction, or for a size that is not a multiple of the "
        "batch size [TD1214]",
        TextOf(dims));
  }
  const int64_t size = whole.number / rest.number;
  const auto filled = batches == 1 ? Batches(size) : std::optional(size);
  if (!filled) return InvalidArgument("the shape %s is too large [TD2108]", TextOf(dims));
  *open = *filled;
  return OkStatus();
}

// Finds the dimension in `dims` that is the batch, and marks it with kBatch. `fixed`: the batch
// size for which the sizes were saved. `stride`: distance between two samples, in elements.
Status PutBatch(int64_t stride, int64_t fixed, Ints& dims) {
  TD_REQUIRE(fixed > 0);
  Ints places, exact;
  int64_t inner = 1;
  for (size_t i = dims.size(); i-- > 0; inner *= dims[i]) {
    if (dims[i] < 1 || dims[i] > kBatchesMax) break;
    const bool holds = inner <= stride && stride % inner == 0 &&
                       dims[i] / fixed >= stride / inner &&
                       dims[i] % (fixed * (stride / inner)) == 0;
    if (holds) places.push_back(static_cast<int64_t>(i));
    if (holds && dims[i] == fixed) exact.push_back(static_cast<int64_t>(i));
    if (dims[i] > stride / inner) break;
  }
  if (places.size() != 1 && exact.size() != 1) {
    return Unimplemented(
        "shape %s was exported for batch size %d: %s [TD1214]; hint: export the model with a "
        "dynamic batch",
        TextOf(dims), fixed,
        places.empty() ? "no dimension is a multiple of the batch size"
                       : "several dimensions could be the batch");
  }
  int64_t& size = dims[static_cast<size_t>(exact.size() == 1 ? exact[0] : places[0])];
  size = kBatch + size / fixed;
  return OkStatus();
}

}  // namespace

std::optional<int64_t> ComputeSize(char op, int64_t a, int64_t b) {
  TD_REQUIRE(op == '+' || op == '-' || op == '*' || op == '/' || op == '%');
  const bool batch_a = IsBatch(a), batch_b = IsBatch(b);
  const int64_t x = batch_a ? a - kBatch : a, y = batch_b ? b - kBatch : b;
  const bool sum = op == '+' || op == '-';
  if (op == '%') {
    if (y == 0 || y == -1 || batch_a || batch_b) return std::nullopt;
    const int64_t rest = x % y;  // has the sign of x; the result of ONNX has the sign of y
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
  // The sum or difference of a multiple of the batch and a number is a size only if the number is
  // 0.
  if (sum && batch_a != batch_b) {
    if (batch_a && y == 0) return a;
    return batch_b && x == 0 && op == '+' ? std::optional(b) : std::nullopt;
  }
  int64_t result = 0;
  bool overflow = false;
  if (op == '+') overflow = __builtin_add_overflow(x, y, &result);
  if (op == '-') overflow = __builtin_sub_overflow(x, y, &result);
  if (op == '*') overflow = __builtin_mul_overflow(x, y, &result) || (batch_a && batch_b);
  if (op == '/') {
    if (y == 0 || (x == INT64_MIN && y == -1) || (batch_b && !batch_a)) return std::nullopt;
    if (batch_a && !batch_b && x % y != 0) return std::nullopt;
    result = x / y;
  }
  if (overflow) return std::nullopt;
  const bool batch = op == '/' ? batch_a && !batch_b : batch_a || batch_b;
  if (batch && sum && result == 0) return 0;
  return batch ? Batches(result) : std::optional(result);
}

StatusOr<Ints> FillSizes(const BatchedProgram& program, const std::string& var, Ints dims) {
  TD_ASSIGN_OR_RETURN(const Product whole, ProductOf(program, var));
  TD_RETURN_IF_ERROR(FillOpen(whole, dims));
  return dims;
}

StatusOr<Ints> ReshapeSizes(const BatchedProgram& program, const std::string& var, Ints dims,
                            bool allow_zero) {
  TD_ASSIGN_OR_RETURN(const Ints from, program.Sizes(var));
  TD_ASSIGN_OR_RETURN(const auto batch, program.BatchOf(var));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 0) continue;
    if (allow_zero) {
      return Unimplemented(
          "allowzero = 1 with the shape %s makes a tensor without elements [TD1213]; hint: export "
          "the model with sizes of at least 1",
          TextOf(dims));
    }
    if (i >= from.size())
      return InvalidArgument("size %d copies a dimension that the input does not have [TD2108]", i);
    dims[i] = from[i];
  }
  const bool sized = std::any_of(dims.begin(), dims.end(), IsBatch);
  const int64_t fixed = program.fixed_batch();
  if (!batch || fixed == 0 || sized) return FillSizes(program, var, std::move(dims));
  TD_ASSIGN_OR_RETURN(Product here, ProductOf(program, var));
  here.batches = 0;
  if (!here.Multiply(fixed))
    return InvalidArgument("tensor \"%s\" has too many elements [TD2108]", var);
  TD_RETURN_IF_ERROR(FillOpen(here, dims));
  TD_RETURN_IF_ERROR(PutBatch(batch->stride, fixed, dims));
  return dims;
}

}  // namespace tandem::onnx
