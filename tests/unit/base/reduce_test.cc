// Tests the arithmetic of reductions: compares each element type with scalar code, and checks the
// order of additions.
#include "common/tensor/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tandem {
namespace {

TEST(ReduceTest, MatchesScalarsForEveryType) {
  const size_t n = 37;  // 37 is not a multiple of any vector width
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd}) {
    const auto expect = [op](auto a, auto b) -> decltype(a) {
      switch (op) {
        case ReduceOp::kSum:
          return a + b;
        case ReduceOp::kMax:
          return a > b ? a : b;
        case ReduceOp::kMin:
          return a < b ? a : b;
        case ReduceOp::kProd:
          return a * b;
      }
      return a;
    };
    std::vector<float> f(n), g(n);
    std::vector<int32_t> i(n), j(n);
    std::vector<int64_t> k(n), l(n);
    std::vector<uint16_t> h(n), p(n), b(n), q(n);
    for (size_t x = 0; x < n; ++x) {
      f[x] = 0.37f * static_cast<float>(x) - 5;
      g[x] = 3 - 0.11f * static_cast<float>(x);
      i[x] = static_cast<int32_t>(x) - 5;
      j[x] = 7 - static_cast<int32_t>(x);
      k[x] = (int64_t{1} << 33) + i[x];
      l[x] = j[x];
      h[x] = F32ToF16(f[x]);
      p[x] = F32ToF16(g[x]);
      b[x] = F32ToBF16(f[x]);
      q[x] = F32ToBF16(g[x]);
    }
    auto f1 = f;
    auto i1 = i;
    auto k1 = k;
    auto h1 = h, b1 = b;
    ReduceInto(op, DType::kF32, f1.data(), g.data(), n, true);
    ReduceInto(op, DType::kI32, i1.data(), j.data(), n, true);
    ReduceInto(op, DType::kI64, k1.data(), l.data(), n, false);
    ReduceInto(op, DType::kF16, h1.data(), p.data(), n, true);
    ReduceInto(op, DType::kBF16, b1.data(), q.data(), n, false);
    for (size_t x = 0; x < n; ++x) {
      EXPECT_EQ(f1[x], expect(f[x], g[x]));
      EXPECT_EQ(i1[x], expect(i[x], j[x]));
      EXPECT_EQ(k1[x], expect(k[x], l[x]));
      EXPECT_EQ(h1[x], F32ToF16(expect(F16ToF32(h[x]), F16ToF32(p[x]))));
      EXPECT_EQ(b1[x], F32ToBF16(expect(BF16ToF32(b[x]), BF16ToF32(q[x]))));
    }
  }
}

TEST(ReduceTest, NotANumberWinsAndOverflowWraps) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool acc_first : {true, false}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      std::vector<float> acc = {nan, 1, 2}, in = {1, nan, 3};
      ReduceInto(op, DType::kF32, acc.data(), in.data(), 3, acc_first);
      EXPECT_TRUE(std::isnan(acc[0]) && std::isnan(acc[1]) && !std::isnan(acc[2]));
      for (const DType dtype : {DType::kF16, DType::kBF16}) {
        const bool half = dtype == DType::kF16;
        const auto bits = [&](float v) { return half ? F32ToF16(v) : F32ToBF16(v); };
        std::vector<uint16_t> a(9, bits(nan)), b(9, bits(1));
        ReduceInto(op, dtype, a.data(), b.data(), 9, acc_first);
        for (const uint16_t v : a) EXPECT_TRUE(std::isnan(half ? F16ToF32(v) : BF16ToF32(v)));
      }
    }
    int32_t big = std::numeric_limits<int32_t>::max(), one = 1;
    ReduceInto(ReduceOp::kSum, DType::kI32, &big, &one, 1, acc_first);
    EXPECT_EQ(big, std::numeric_limits<int32_t>::min());
  }
}

// Values for which each order of addition gives a different result. The vectors are longer than one
// block of elements.
TEST(ReduceTest, TreesAddNeighboursFirst) {
  constexpr size_t kElements = 2500;
  const auto value = [](size_t c, size_t i) {
    return 1.0f / static_cast<float>(3 * i + 7 * c + 1) * (c % 3 == 0 ? 1 : -1e3f);
  };
  for (size_t n = 1; n <= 9; ++n) {
    std::vector<std::vector<float>> values(n, std::vector<float>(kElements));
    std::vector<const std::byte*> contributions;
    for (size_t c = 0; c < n; ++c) {
      for (size_t i = 0; i < kElements; ++i) values[c][i] = value(c, i);
      contributions.push_back(reinterpret_cast<const std::byte*>(values[c].data()));
    }
    std::vector<float> sum(kElements);
    std::byte* const out = reinterpret_cast<std::byte*>(sum.data());
    ReduceTree(ReduceOp::kSum, DType::kF32, contributions, {&out, 1}, kElements);
    for (size_t i = 0; i < kElements; ++i) {
      // Returns the expected sum of the contributions [from, from + size) that exist, added as a
      // tree. `size` is a power of two.
      const auto of = [&](auto self, size_t from, size_t size) -> float {
        if (size == 1) return value(from, i);
        const float left = self(self, from, size / 2);
        return from + size / 2 < n ? left + self(self, from + size / 2, size / 2) : left;
      };
      ASSERT_EQ(sum[i], of(of, 0, 16)) << "element " << i << " of " << n << " contributions";
    }
  }
}

}  // namespace
}  // namespace tandem
