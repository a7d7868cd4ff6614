// fraction_of_gpu_memory_to_use, initial_gpu_memory_in_mb, reallocate_gpu_memory_in_mb and
// gpu_memory_limit_mb: how often a device requests memory from its driver, how much it requests,
// and the message if no memory is left.
#include <cstdlib>
#include <cstring>

#include "common/tensor/device_pool.h"
#include "gmock/gmock.h"
#include "tests/support/device_job_test.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Stand-in for a driver: allocates a limited amount of host memory.
struct Host {
  size_t left;
  std::vector<size_t> asked;
  std::map<std::byte*, size_t> given;

  DevicePool::Driver driver() {
    return {.allocate = [this](size_t bytes) -> std::byte* {
              asked.push_back(bytes);
              if (bytes > left) return nullptr;
              auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, bytes));
              left -= bytes;
              given[memory] = bytes;
              return memory;
            },
            .free =
                [this](std::byte* memory) {
                  left += given.at(memory);
                  given.erase(memory);
                  std::free(memory);
                },
            .free_bytes = [this] { return left; }};
  }
};

TEST(DevicePool, AChunkServesMany) {
  Host host{.left = 1 << 20, .asked = {}, .given = {}};
  {
    DevicePool pool("d", host.driver(), {.fraction = 0.5});
    std::vector<std::byte*> taken;
    for (int i = 0; i < 100; ++i) {
      const auto memory = pool.Take(static_cast<size_t>(40 * i));
      ASSERT_TRUE(memory.ok()) << memory.status();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % DevicePool::kAlignment, 0u);
      std::memset(*memory, i, static_cast<size_t>(40 * i));
      taken.push_back(*memory);
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      for (size_t b = 0; b < 40 * i; ++b) ASSERT_EQ(taken[i][b], static_cast<std::byte>(i));
    }
    EXPECT_THAT(host.asked, ElementsAre(1 << 19));
    // After the test has returned all parts, in any order, the memory is one contiguous block
    // again.
    for (size_t i = 0; i < taken.size(); ++i) pool.Give(taken[i * 37 % taken.size()]);
    EXPECT_EQ(pool.counts().used_bytes, 0u);
    const auto whole = pool.Take(1 << 19);
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(pool.counts().driver_calls, 1);
    pool.Give(*whole);
  }
  EXPECT_TRUE(host.given.empty());
}

TEST(DevicePool, SizesOfChunks) {
  Host host{.left = 1 << 20, .asked = {}, .given = {}};
  DevicePool pool("d", host.driver(),
                  {.fraction = 0.9, .first_bytes = 4096, .more_bytes = 8192, .limit_bytes = 65536});
  for (const size_t bytes : {4000, 100, 300, 9000, 20000}) {
    EXPECT_TRUE(pool.Take(bytes).ok()) << bytes;
  }
  // The sizes of the first block, of a later block, and of two blocks for requests that are larger
  // than a later block.
  EXPECT_THAT(host.asked, ElementsAre(4096, 8192, 9216, 20224));
  const Status none = pool.Take(30000).status();
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(none.message()), HasSubstr("gpu_memory_limit_mb allows 65536"));
}

TEST(DevicePool, WithoutAFractionEachAsks) {
  Host host{.left = 10000, .asked = {}, .given = {}};
  DevicePool pool("d", host.driver(), {});
  const auto a = pool.Take(1000), b = pool.Take(2000);
  ASSERT_TRUE(a.ok() && b.ok());
  pool.Give(*a);
  EXPECT_EQ(host.given.size(), 1u);
  EXPECT_TRUE(pool.Take(1000).ok());
  EXPECT_THAT(host.asked, ElementsAre(1024, 2048, 1024));
  const Status none = pool.Take(9000).status();
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(none.message(),
            "cannot allocate 9216 bytes on d: the device has 6928 free bytes, and this process "
            "uses 3072 of its 3072 allocated bytes [TD5004]");
}

TEST(DevicePool, WhatIsLeftIsTakenWhenAChunkIsNot) {
  Host host{.left = 10240, .asked = {}, .given = {}};
  DevicePool pool("d", host.driver(), {.first_bytes = 20480});
  EXPECT_TRUE(pool.Take(1000).ok());
  EXPECT_THAT(host.asked, ElementsAre(20480, 1024));
}

class DeviceMemoryJob : public DeviceJobTest {
 protected:
  std::map<std::string, double> CountsOf(const std::string& name, Args args) {
    args.push_back("--steps_max=5");
    const JobRun run = Run(name, OnDevice(args));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run.result.counts;
  }
};

TEST_F(DeviceMemoryJob, TheDriverIsAskedOnceOrEachTime) {
  auto counts = CountsOf("share", {"--fraction_of_gpu_memory_to_use=0.25"});
  EXPECT_EQ(counts["device.driver_calls"], 1);
  EXPECT_EQ(counts["device.driver_bytes"], 1 << 30);  // a quarter of the 4 GB of the device
  counts = CountsOf("each", {"--fraction_of_gpu_memory_to_use=0"});
  EXPECT_GT(counts["device.driver_calls"], 10);
  EXPECT_LT(counts["device.driver_bytes"], 1 << 20);
  counts = CountsOf("sizes", {"--initial_gpu_memory_in_mb=1", "--fraction_of_gpu_memory_to_use=0"});
  EXPECT_EQ(counts["device.driver_calls"], 1);
  EXPECT_EQ(counts["device.driver_bytes"], 1 << 20);
}

TEST_F(DeviceMemoryJob, FurtherChunksHaveASizeOfTheirOwn) {
  std::string large = ReadWholeFile(job_);
  large.replace(large.find("32,16"), 5, "2048,512");
  job_ = Write("large.pbtxt", large);
  auto counts =
      CountsOf("more", {"--initial_gpu_memory_in_mb=1", "--reallocate_gpu_memory_in_mb=64"});
  EXPECT_GE(counts["device.driver_bytes"], 64 << 20);
  EXPECT_LE(counts["device.driver_calls"], 4);
}

TEST_F(DeviceMemoryJob, BeyondTheLimitTheLargestAreNamed) {
  std::string large = ReadWholeFile(job_);
  large.replace(large.find("32,16"), 5, "2048,512");
  job_ = Write("large.pbtxt", large);
  const JobRun run = Run("limit", {"--place=cuda", "--gpu_memory_limit_mb=8"});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, HasSubstr("gpu_memory_limit_mb allows 8388608"));
  EXPECT_THAT(run.output, HasSubstr("the largest variables are fc_1.w f32[2048,512] (4.0 MiB)"));
}

}  // namespace
}  // namespace tandem::trainer
