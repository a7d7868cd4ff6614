// Computes the initial values of a variable. Use this class for many ranges of a variable, and
// FillInitial of scope.h for one range.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/graph/program.h"

namespace tandem::exec {

class InitialValues {
 public:
  // Prepares the initial values of variable `name`. `shape` is the shape of the whole variable.
  InitialValues(const std::string& name, const graph::Init& init, const Shape& shape,
                uint64_t seed);
  // Writes elements [offset, offset + out.size()) of the variable to `out`.
  void Fill(int64_t offset, std::span<float> out) const;
  // Writes elements [offsets[r], offsets[r] + n) of the variable to row r of `out`. `out` has the
  // shape [number of offsets, n].
  void FillRows(std::span<const uint64_t> offsets, int64_t n, float* out) const;

 private:
  graph::Init::Kind kind_;
  uint64_t key_;
  // Parameters of the distribution: the constant (a_), the bounds (a_, b_), or mean and standard
  // deviation (a_, b_).
  double a_, b_;
};

}  // namespace tandem::exec
