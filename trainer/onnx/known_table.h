// Numbers that are known while an ONNX model is read, in the form in which Evaluate (evaluate.h)
// computes nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "common/tensor/types.h"

namespace tandem::onnx {

// One number. A table of integers uses the field `whole`. A table of floats or truth values uses
// the field `number`.
struct KnownNumber {
  int64_t whole = 0;  // may be kBatch + k, a size that depends on the batch
  double number = 0;  // 0 or 1 for a truth value
  int64_t slope = 0;  // the integer of sample i is `whole` plus i times the slope
};

struct KnownTable {
  bool whole = false;  // true: the numbers are integers
  bool wide = false;  // true: the numbers are f64 (DOUBLE); false: AddTable rounds fractions to f32
  Shape shape;
  // The dimension that is the batch; -1: there is none. In `shape` this dimension has size 1. The
  // numbers of different samples differ only by KnownNumber::slope.
  int batch = -1;
  std::vector<KnownNumber> numbers;
};

}  // namespace tandem::onnx
