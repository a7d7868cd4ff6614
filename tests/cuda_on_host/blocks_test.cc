// Tests that the stand-in for a device detects errors of kernels.
#include "tests/cuda_on_host/blocks.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::cuda_on_host {
namespace {

TEST(Blocks, EveryThreadOnce) {
  std::vector<int> seen(3 * 2 * 8 * 4);
  RunBlocks({3, 2}, {8, 4}, [&seen] {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    ++seen[block * blockDim.count() + threadIdx.y * blockDim.x + threadIdx.x];
  });
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(Blocks, BarriersAndExchanges) {
  std::vector<unsigned> given(64), sums(64);
  bool any = false;
  RunBlocks(1, 64, [&] {
    given[threadIdx.x] = threadIdx.x;
    SyncThreads();
    unsigned sum = given[63 - threadIdx.x];
    for (unsigned step = 16; step > 0; step /= 2) {
      unsigned other = sum;
      Exchange(&other, sizeof(other), Lane() ^ step);
      sum += other;
    }
    sums[threadIdx.x] = sum;
    any = SyncThreadsOr(threadIdx.x == 40) && !SyncThreadsOr(false);
  });
  for (unsigned t = 0; t < 64; ++t) {
    EXPECT_EQ(sums[t], t < 32 ? (32 + 63) * 16 : 31 * 16) << t;
  }
  EXPECT_TRUE(any);
}

// If the kernel lacks the barrier, its two blocks give different results.
TEST(Blocks, AMissingBarrierIsSeen) {
  std::vector<unsigned> result(2 * 32);
  for (const bool barrier : {true, false}) {
    std::vector<unsigned> shared(32);
    RunBlocks(2, 32, [&] {
      shared[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
      if (barrier) SyncThreads();
      result[blockIdx.x * 32 + threadIdx.x] = shared[(threadIdx.x + 1) % 32] - blockIdx.x * 100;
      if (barrier) SyncThreads();
    });
    const bool same = std::equal(result.begin(), result.begin() + 32, result.begin() + 32);
    EXPECT_EQ(same, barrier);
  }
}

TEST(BlocksDeathTest, AnExchangeThatNotAllTakePartIn) {
  const auto kernel = [] {
    int value = 0;
    if (threadIdx.x != 5) Exchange(&value, sizeof(value), 0);
  };
  EXPECT_DEATH(RunBlocks(1, 32, kernel), "waits for lanes of its warp that are somewhere else");
}

}  // namespace
}  // namespace tandem::cuda_on_host
