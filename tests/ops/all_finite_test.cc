// The vector loop that looks for numbers that are none.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/ops/update_loops.h"

namespace tandem {
namespace {

TEST(AllFinite, SeesOneInAnyPlace) {
  using Limits = std::numeric_limits<float>;
  for (const UpdateLoops* loops : {&kUpdateLoopsBase, &BestUpdateLoops()}) {
    for (const int64_t n : {0, 1, 7, 16, 17, 70}) {
      std::vector<float> x(static_cast<size_t>(n), -Limits::max());
      EXPECT_TRUE(loops->all_finite(x.data(), n)) << n;
      for (float& v : x) {
        for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                -Limits::signaling_NaN()}) {
          v = bad;
          EXPECT_FALSE(loops->all_finite(x.data(), n)) << n;
        }
        v = Limits::denorm_min();
      }
      EXPECT_TRUE(loops->all_finite(x.data(), n)) << n;
    }
  }
}

}  // namespace
}  // namespace tandem
