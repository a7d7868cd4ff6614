// Tests the vector loops that search for NaN and infinity.
#include "common/tensor/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tandem {
namespace {

using Limits = std::numeric_limits<float>;

TEST(Finite, SeesOneInAnyPlace) {
  for (const size_t n : {0, 1, 7, 16, 17, 63, 64, 70, 200}) {
    std::vector<float> x(n, -Limits::max());
    EXPECT_TRUE(AllFinite(x)) << n;
    EXPECT_EQ(FirstNotFinite(x), -1);
    for (size_t i = 0; i < n; ++i) {
      for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                              -Limits::signaling_NaN()}) {
        x[i] = bad;
        EXPECT_FALSE(AllFinite(x)) << n;
        EXPECT_EQ(FirstNotFinite(x), static_cast<int64_t>(i));
      }
      x[i] = Limits::denorm_min();
    }
    EXPECT_TRUE(AllFinite(x)) << n;
  }
}

TEST(Finite, CopiesAllOfThemAndLooks) {
  for (const size_t n : {0, 1, 100, 4095, 4096, 4097, 10000}) {
    std::vector<float> from(n), to(n + 1, -1);
    for (size_t i = 0; i < n; ++i) from[i] = static_cast<float>(i);
    EXPECT_TRUE(CopyFinite(from.data(), to.data(), n));
    EXPECT_EQ(std::vector<float>(to.begin(), to.end() - 1), from);
    EXPECT_EQ(to.back(), -1);
    for (size_t i = 0; i < n; i += 97) {
      from[i] = Limits::infinity();
      EXPECT_FALSE(CopyFinite(from.data(), to.data(), n)) << i;
      EXPECT_EQ(std::vector<float>(to.begin(), to.end() - 1), from);
      from[i] = 0;
    }
  }
}

}  // namespace
}  // namespace tandem
