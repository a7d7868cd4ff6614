// The first values of a variable (FillInitial of scope.h), for those who ask for many parts of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/graph/program.h"

namespace tandem {

class InitialValues {
 public:
  // Of variable `name` with the whole shape `shape`.
  InitialValues(const std::string& name, const Init& init, const Shape& shape, uint64_t seed);
  // Elements [offset, offset + out.size()).
  void Fill(int64_t offset, std::span<float> out) const;
  // Row r of `out` [offsets, n]: elements [offsets[r], offsets[r] + n).
  void FillRows(std::span<const uint64_t> offsets, int64_t n, float* out) const;

 private:
  Init::Kind kind_;
  uint64_t key_;
  double a_, b_;  // the constant; the bounds; mean and standard deviation
};

}  // namespace tandem
