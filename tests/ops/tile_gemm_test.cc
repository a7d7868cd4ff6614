// Tests matrix products on AMX tiles. The products must be as exact as f32, and their bits must not
// depend on the partition of the work.
#include "kernels/ops/cpu/tile_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/tensor/device.h"

namespace tandem {
namespace {

struct Product {
  ops::TileGemm::Sizes s;
  std::vector<float> a, b, bias;
};

Product Draw(const ops::TileGemm::Sizes& s) {
  Product p{s, {}, {}, {}};
  std::mt19937 rng(static_cast<unsigned>(s.m * 31 + s.n * 7 + s.k));
  std::normal_distribution<float> normal;
  p.a.resize(static_cast<size_t>(s.m * s.k));
  p.b.resize(static_cast<size_t>(s.k * s.n));
  p.bias.resize(static_cast<size_t>(s.n));
  for (auto* values : {&p.a, &p.b, &p.bias}) {
    for (float& x : *values) x = normal(rng);
  }
  return p;
}

StatusOr<std::vector<float>> Multiply(const Product& p, bool with_bias = true) {
  TD_ASSIGN_OR_RETURN(const ops::TileGemm gemm, ops::TileGemm::Make(p.s));
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const Buffer scratch, device.Allocate(gemm.scratch_bytes()));
  std::vector<float> c(static_cast<size_t>(p.s.m * p.s.n), std::nanf(""));
  gemm.Run(p.a.data(), p.b.data(), with_bias ? p.bias.data() : nullptr, c.data(), scratch.get());
  return c;
}

bool NoTiles() { return ops::AmxTileLoops() == nullptr; }

// Returns the largest error of an element of `c`, relative to the sum of all |a * b| and |bias|.
double WorstError(const Product& p, const std::vector<float>& c) {
  const auto& s = p.s;
  double worst = 0;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const auto at = [](const std::vector<float>& x, int64_t k) {
        return static_cast<double>(x[static_cast<size_t>(k)]);
      };
      double sum = at(p.bias, j), size = std::fabs(sum);
      for (int64_t k = 0; k < s.k; ++k) {
        const double ab = at(p.a, s.trans_a ? k * s.m + i : i * s.k + k) *
                          at(p.b, s.trans_b ? j * s.k + k : k * s.n + j);
        sum += ab;
        size += std::fabs(ab);
      }
      worst = std::max(worst, std::fabs(at(c, i * s.n + j) - sum) / size);
    }
  }
  return worst;
}

TEST(TileGemm, IsAsExactAsF32) {
  if (NoTiles()) GTEST_SKIP() << "this CPU has no AMX tiles";
  struct Size {
    int64_t m, n, k;
  };
  // Sizes with whole panels, with partial panels in each direction, and with more than one block
  // along k.
  for (const Size& size : {Size{96, 160, 128}, {97, 161, 131}, {128, 79, 2050}}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        const Product p = Draw({size.m, size.n, size.k, trans_a, trans_b});
        const auto c = Multiply(p);
        ASSERT_TRUE(c.ok()) << c.status();
        // The limit is smaller than the error of sums whose partial sums are rounded to f32: about
        // 2^-24 * 3 for random rounding errors.
        EXPECT_LT(WorstError(p, *c), 2e-7)
            << size.m << " x " << size.n << " x " << size.k << ' ' << trans_a << trans_b;
      }
    }
  }
}

TEST(TileGemm, BitsDependOnNothingButK) {
  if (NoTiles()) GTEST_SKIP() << "this CPU has no AMX tiles";
  Product p = Draw({512, 300, 1500, false, false});
  const auto one = Multiply(p);
  ASSERT_TRUE(one.ok()) << one.status();
  for (const int threads : {2, 3, 5}) {
    p.s.threads = threads;
    const auto more = Multiply(p);
    ASSERT_TRUE(more.ok()) << more.status();
    EXPECT_EQ(*one, *more) << threads << " threads";
  }
  p.s.m = 77;  // multiplies only the first 77 rows of a
  const auto rows = Multiply(p);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(std::vector<float>(one->begin(), one->begin() + 77 * 300), *rows);
}

TEST(TileGemm, ScalesAndPassesOnWhatIsNoNumber) {
  if (NoTiles()) GTEST_SKIP() << "this CPU has no AMX tiles";
  constexpr size_t kSide = 128, kRow = 5;
  Product p = Draw({kSide, kSide, kSide, false, false});
  const auto plain = Multiply(p, /*with_bias=*/false);
  ASSERT_TRUE(plain.ok()) << plain.status();
  p.s.alpha = 0.25f;
  const auto scaled = Multiply(p, /*with_bias=*/false);
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  for (size_t i = 0; i < plain->size(); ++i) ASSERT_EQ((*scaled)[i], 0.25f * (*plain)[i]) << i;

  p.s.alpha = 1;  // a product with a bias has no scale
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    p.a[kRow * kSide + 9] = bad;
    const auto c = Multiply(p);
    ASSERT_TRUE(c.ok()) << c.status();
    for (size_t i = 0; i < c->size(); ++i) {
      EXPECT_EQ(std::isfinite((*c)[i]), i / kSide != kRow) << bad << " at " << i;
    }
  }
}

TEST(TileGemm, RefusesSmallProducts) {
  const Status small = ops::TileGemm::Make({8, 8, 8, false, false}).status();
  EXPECT_EQ(small.code(), StatusCode::kUnimplemented) << small;
  EXPECT_EQ(ops::TileGemm::Make({0, 64, 64, false, false}).status().code(),
            StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tandem
