// The rows of the operator test bench. A row is one operator with shapes, attributes and
// distributions of its random inputs. Each row is used for three tests: comparison with the
// reference loops, check of the gradient, and benchmark. The rows of an operator determine its line
// in docs/reference/operators.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/types.h"
#include "kernels/ops/core/op.h"

namespace tandem::optest {

// A tensor of the oracle. Elements of every type are stored as double. A double represents f32
// values and the drawn integers exactly.
struct Value {
  TensorDesc desc;
  std::vector<double> v;
};

// The type, the shape and the distribution of one input.
struct Draw {
  enum Kind : uint8_t {
    kUniform,       // uniform in [low, high)
    kDistinct,      // a permutation of evenly spaced values, so no ties for max
    kFew,           // 0, 1 or 2: there are many ties
    kAwayFromZero,  // 0.1 <= |x| < 1, so that no finite difference reaches the kink of relu at 0
    kLabel,         // integers in [low, high); every `ignore_every`th element is `ignore`
    kSoftmaxRows,   // rows of positive values whose sum is 1
    kSpecial,       // values in turn: NaN, infinities, zeros, denormals and large numbers
    kDerived        // computed from inputs at earlier positions
  };
  TensorDesc desc;
  Kind kind = kUniform;
  double low = -1, high = 1;
  // For kLabel: distance between elements that are `ignore`; 0: no element is `ignore`.
  int ignore_every = 0;
  int64_t ignore = -100;
  std::function<Value(std::span<const Value> before)> derive;
};

Draw F32(const Shape& shape, double low = -1, double high = 1);
Draw Distinct(const Shape& shape);
Draw Few(const Shape& shape);
Draw AwayFromZero(const Shape& shape);
Draw Special(const Shape& shape);
Draw Labels(int64_t rows, int64_t classes, int ignore_every = 0, int64_t ignore = -100);
// Returns the description of random i64 ids in [0, rows).
Draw Ids(const Shape& shape, int64_t rows);
// Returns the description of the row numbers of a sparse gradient: `n` numbers. The first `used`
// numbers ascend and are in [0, height); the others are -1.
Draw SparseRowIds(int64_t n, int64_t used, int64_t height);
// Returns the description of the values [n, dim] of a sparse gradient. The first `used` rows are
// random, the other rows are zeros.
Draw SparseValues(int64_t n, int64_t used, int64_t dim);
Draw SoftmaxRows(const Shape& shape);

// Allowed difference of an element: rel * |expected| + of_max * (largest |expected| of the output)
// + abs. If all three are 0, the bits must be equal, except for the sign of zeros.
struct Tolerance {
  double rel = 0, of_max = 0, abs = 0;
};

// Tolerance for sums of `terms` products of numbers below 1 in any order. The rounding errors of a
// running sum of random terms grow with the number of terms. The tolerance is twice the expected
// error of the worst order.
inline Tolerance Products(int64_t terms) {
  return {.of_max = 1e-6, .abs = 1.2e-7 * static_cast<double>(terms)};
}

// Tolerance for sums whose number of terms is not known to the case.
inline constexpr Tolerance kSums{.of_max = 3e-6};

struct OpCase {
  std::string op;
  // The distributions of the inputs, by slot. An absent optional slot is an empty vector.
  std::vector<std::vector<Draw>> inputs;
  ops::AttrMap attrs = {};
  // Positions of optional output slots that the row does not compute.
  std::vector<size_t> absent_outputs = {};
  size_t many_outputs = 1;  // number of variables in an output slot of arity kMany
  Tolerance tolerance = {};
  // Input slots whose gradients are checked. The test checks all variables of such a slot.
  std::vector<size_t> grad_slots = {};
  size_t grad_output = 0;  // the output slot from which the loss is computed
  // Whether the bits of a result may depend on the number of threads, because threads split its
  // sums.
  bool bits_vary_with_threads = false;
  // The operators of a fused operator, with variables in0, in1, ... and out0, out1, ...
  std::vector<ops::Op> body = {};
  double flops = 0;    // floating-point operations; 0: speed is measured in bytes moved
  bool bench = false;  // whether the benchmark measures the row
};

// Returns the name of a row, for example "conv2d f32[2,3,8,8] f32[4,3,3,3] - {strides=[2,2]}".
std::string CaseName(const OpCase& c);

// Returns the drawn inputs by position. An absent optional slot gives an empty Value. A row and a
// seed give the same values on every machine.
std::vector<Value> DrawInputs(const OpCase& c, uint64_t seed);

// Returns the operator of the row. Variables are named in0, in1, ... and out0, out1, ... by
// position.
ops::Op MakeOp(const OpCase& c);

// Store writes the elements of `value` to memory as `desc.dtype`, and Load reads such elements.
// REQUIRES: `bytes` holds desc.bytes() bytes.
void Store(const Value& value, void* bytes);
Value Load(const TensorDesc& desc, const void* bytes);

// Compares a result with the reference. Describes the first difference beyond the tolerance; "" if
// there is none. NaN equals NaN.
std::string Compare(const Value& got, const Value& want, const Tolerance& tolerance);

}  // namespace tandem::optest
