#include "kernels/exec/initial_values.h"

#include <algorithm>
#include <cmath>

#include "common/base/require.h"
#include "common/base/rng.h"
#include "kernels/ops/cpu/math_loops.h"

namespace tandem::exec {
namespace {

// Fan-in and fan-out of a weight (FansOf). A matrix is [k, n], a filter is OIHW.
struct Fans {
  double in, out;
};

Fans FansOf(const Shape& shape) {
  if (shape.rank() < 2)
    return {static_cast<double>(shape.numel()), static_cast<double>(shape.numel())};
  if (shape.rank() == 2) return {static_cast<double>(shape[0]), static_cast<double>(shape[1])};
  const auto taps = static_cast<double>(shape.numel(2, shape.rank()));
  return {static_cast<double>(shape[1]) * taps, static_cast<double>(shape[0]) * taps};
}

void FillUniform(uint64_t key, uint64_t offset, double low, double high, std::span<float> out) {
  const auto scale = static_cast<float>(high - low);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(low) + scale * UniformAt(key, offset + i);
  }
}

void FillNormal(uint64_t key, std::span<const uint64_t> offsets, int64_t n, double mean,
                double stddev, float* out) {
  const auto rows = static_cast<int64_t>(offsets.size());
  ops::BestMathLoops().normal(key, offsets.data(), rows, out, n);
  for (float& z : std::span(out, static_cast<size_t>(rows * n))) {
    z = static_cast<float>(mean) + static_cast<float>(stddev) * z;
  }
}

}  // namespace

InitialValues::InitialValues(const std::string& name, const graph::Init& init, const Shape& shape,
                             uint64_t seed)
    : kind_(init.kind), key_(StreamKey(seed, "init:" + name)), a_(init.a), b_(init.b) {
  const Fans fans = FansOf(shape);
  if (kind_ == graph::Init::kXavierUniform) {
    b_ = std::sqrt(6.0 / (fans.in + fans.out));
    a_ = -b_;
  } else if (kind_ == graph::Init::kMsraNormal) {
    a_ = 0.0;
    b_ = std::sqrt(2.0 / fans.in);
  }
}

void InitialValues::Fill(int64_t offset, std::span<float> out) const {
  TD_REQUIRE(offset >= 0);
  const auto begin = static_cast<uint64_t>(offset);
  FillRows({&begin, 1}, static_cast<int64_t>(out.size()), out.data());
}

void InitialValues::FillRows(std::span<const uint64_t> offsets, int64_t n, float* out) const {
  TD_REQUIRE(n >= 0 && (out != nullptr || n == 0 || offsets.empty()));
  switch (kind_) {
    case graph::Init::kConstant:
      return void(
          std::fill_n(out, static_cast<int64_t>(offsets.size()) * n, static_cast<float>(a_)));
    case graph::Init::kUniform:
    case graph::Init::kXavierUniform:
      for (const uint64_t offset : offsets) {
        FillUniform(key_, offset, a_, b_, {out, static_cast<size_t>(n)});
        out += n;
      }
      return;
    case graph::Init::kNormal:
    case graph::Init::kMsraNormal:
      return FillNormal(key_, offsets, n, a_, b_, out);
  }
}

}  // namespace tandem::exec
