// Computes the initial values of a variable (FillInitial of scope.h) for callers that need many
// parts of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/graph/program.h"

namespace tandem {

class InitialValues {
 public:
  // The initial values of variable `name`, whose whole shape is `shape`.
  InitialValues(const std::string& name, const Init& init, const Shape& shape, uint64_t seed);
  // Writes elements [offset, offset + out.size()).
  void Fill(int64_t offset, std::span<float> out) const;
  // Writes elements [offsets[r], offsets[r] + n) to row r of `out` [offsets, n].
  void FillRows(std::span<const uint64_t> offsets, int64_t n, float* out) const;

 private:
  Init::Kind kind_;
  uint64_t key_;
  double a_, b_;  // the constant; the bounds; or mean and standard deviation
};

}  // namespace tandem
