// Tests the vectorised loop that draws normal random numbers, with which parameters are
// initialised.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "kernels/ops/cpu/math_loops.h"

namespace tandem {
namespace {

constexpr uint64_t kKey = 0x123456789abcdef;

std::vector<float> Normals(const ops::MathLoops& loops, uint64_t first, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  loops.normal(kKey, &first, 1, out.data(), n);
  return out;
}

TEST(Normal, IsNormalAt) {
  const auto normals = Normals(ops::BestMathLoops(), 0, 200000);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < normals.size(); ++i) {
    ASSERT_NEAR(normals[i], NormalAt(kKey, i), 1e-6 * (1 + std::fabs(normals[i]))) << i;
    sum += normals[i];
    squares += normals[i] * normals[i];
  }
  EXPECT_NEAR(sum / 2e5, 0, 0.01);
  EXPECT_NEAR(squares / 2e5, 1, 0.02);
}

TEST(Normal, AnySliceHasTheSameBits) {
  const auto all = Normals(ops::BestMathLoops(), 0, 500);
  for (int64_t first = 0; first < 70; ++first) {
    for (const int64_t n : {0, 1, 2, 15, 16, 17, 33}) {
      EXPECT_EQ(Normals(ops::BestMathLoops(), static_cast<uint64_t>(first), n),
                std::vector<float>(all.begin() + first, all.begin() + first + n));
    }
  }
}

TEST(Normal, RowsHaveTheBitsOfEachAlone) {
  const std::vector<uint64_t> firsts = {5, 0, 1000, 17, 34, 3, 3};
  for (const int64_t n : {0, 1, 16, 17, 40}) {
    std::vector<float> rows(firsts.size() * static_cast<size_t>(n)), want;
    ops::BestMathLoops().normal(kKey, firsts.data(), static_cast<int64_t>(firsts.size()),
                                rows.data(), n);
    for (const uint64_t first : firsts) {
      const auto row = Normals(ops::BestMathLoops(), first, n);
      want.insert(want.end(), row.begin(), row.end());
    }
    EXPECT_EQ(rows, want) << n;
  }
}

TEST(Normal, EveryTableHasTheSameBits) {
  const auto want = Normals(ops::kMathLoopsBase, 7, 100000);
  EXPECT_EQ(Normals(ops::BestMathLoops(), 7, 100000), want);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_EQ(Normals(ops::kMathLoopsAvx2, 7, 100000), want);
  }
}

}  // namespace
}  // namespace tandem
