// Numbers that are known while a model is read, in the form in which nodes are computed.
#pragma once

#include <cstdint>
#include <vector>

#include "common/tensor/types.h"

namespace tandem::onnx {

// One number. In a table of integers `whole` holds the number, in a table of floats and truth
// values `number` does.
struct KnownNumber {
  int64_t whole = 0;  // may be kBatch + k, a size that depends on the batch
  double number = 0;  // 0 or 1 for a truth value
  int64_t slope = 0;  // the integer of sample i is `whole` plus i times the slope
};

struct KnownTable {
  bool whole = false;  // integers
  bool wide = false;   // numbers of type DOUBLE; other fractions are rounded to f32 by AddTable
  Shape shape;
  // The dimension that is the batch; -1: there is none. `shape` has size 1 there, and the numbers
  // of all samples are equal except for the slopes.
  int batch = -1;
  std::vector<KnownNumber> numbers;
};

}  // namespace tandem::onnx
