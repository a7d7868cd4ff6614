// The rows of the operator test bench. A row is one operator with shapes, attributes and the
// distributions of its random inputs. Each row is used for the comparison with the reference loops,
// the check of the gradient and the benchmark. All rows of an operator together make its line in
// docs/reference/operators.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/types.h"
#include "kernels/ops/core/op.h"

namespace tandem::optest {

// A tensor of the oracle, whose elements are stored as double for every type (f32 and the integers
// drawn here are exact).
struct Value {
  TensorDesc desc;
  std::vector<double> v;
};

// The distribution of one input.
struct Draw {
  enum Kind : uint8_t {
    kUniform,       // [low, high)
    kDistinct,      // a permutation of evenly spaced values: no ties for max
    kFew,           // 0, 1 or 2: many ties
    kAwayFromZero,  // 0.1 <= |x| < 1: no finite difference reaches the kink of relu
    kLabel,         // integers in [low, high); every `ignore_every`th is `ignore`
    kSoftmaxRows,   // positive rows with the sum 1
    kSpecial,       // NaN, infinities, zeros, denormals and large numbers in turn
    kDerived        // computed from the inputs drawn before
  };
  TensorDesc desc;
  Kind kind = kUniform;
  double low = -1, high = 1;
  int ignore_every = 0;  // 0: none
  int64_t ignore = -100;
  std::function<Value(std::span<const Value> before)> derive;
};

Draw F32(const Shape& shape, double low = -1, double high = 1);
Draw Distinct(const Shape& shape);
Draw Few(const Shape& shape);
Draw AwayFromZero(const Shape& shape);
Draw Special(const Shape& shape);
Draw Labels(int64_t rows, int64_t classes, int ignore_every = 0, int64_t ignore = -100);
Draw Ids(const Shape& shape, int64_t rows);  // i64 in [0, rows)
// Row numbers of a sparse gradient: `used` numbers of [0, height) ascending, -1 in the rest of `n`.
Draw SparseRowIds(int64_t n, int64_t used, int64_t height);
// Values [n, dim] of a sparse gradient with `used` rows, followed by zeros.
Draw SparseValues(int64_t n, int64_t used, int64_t dim);
Draw SoftmaxRows(const Shape& shape);

// Allowed difference of an element: rel * |wanted| + of_max * largest |wanted| of that output +
// abs. All 0: the same bits (zeros may differ in sign).
struct Tolerance {
  double rel = 0, of_max = 0, abs = 0;
};

// For sums of `terms` products of numbers below 1 in any order. The rounding errors of a running
// sum of random terms grow with their number. The tolerance is twice the expected error of the
// worst order.
inline Tolerance Products(int64_t terms) {
  return {.of_max = 1e-6, .abs = 1.2e-7 * static_cast<double>(terms)};
}

struct OpCase {
  std::string op;
  std::vector<std::vector<Draw>> inputs;  // by slot; an absent optional slot is empty
  AttrMap attrs = {};
  std::vector<size_t> absent_outputs = {};  // optional output slots that are not needed
  size_t many_outputs = 1;                  // variables in a kMany output slot
  Tolerance tolerance = {};
  // Input slots (their first variable; every variable of a kMany slot) whose gradients are checked.
  std::vector<size_t> grad_slots = {};
  size_t grad_output = 0;  // output slot from which the loss is computed
  // The sums for a result are split over the threads: more threads may give other bits.
  bool bits_vary_with_threads = false;
  std::vector<Op> body = {};  // of a fused operator, over in0, in1, ... and out0, out1, ...
  double flops = 0;           // 0: measured in bytes moved
  bool bench = false;         // has a line in the benchmark
};

// "conv2d f32[2,3,8,8] f32[4,3,3,3] - {strides=[2,2]}".
std::string CaseName(const OpCase& c);

// The inputs by position; absent optional slots are empty Values. The values for a row and a seed
// are the same on every machine.
std::vector<Value> DrawInputs(const OpCase& c, uint64_t seed);

// The operator with variables in0, in1, ... and out0, out1, ... by position.
Op MakeOp(const OpCase& c);

// Writes the elements of `value` to memory as `desc.dtype`, and reads them. REQUIRES: `bytes` holds
// desc.bytes().
void Store(const Value& value, void* bytes);
Value Load(const TensorDesc& desc, const void* bytes);

// Describes the first difference beyond the tolerance; "" if there is none. NaN equals NaN.
std::string Compare(const Value& got, const Value& want, const Tolerance& tolerance);

}  // namespace tandem::optest
