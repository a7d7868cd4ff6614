// cpu_deterministic: with each value of the knob, a sum adds the values of the replicas in a fixed
// order, whichever replica is ready first. Another order would give other bits.
#include <thread>

#include "collective/host/inproc.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int kPlaces = 4;
constexpr size_t kCount = 4096;

// Returns the sum over all replicas, with replica `late` as the last caller; -1: any order.
// `values` is indexed by replica.
std::vector<float> Sum(const std::vector<std::vector<float>>& values, int late) {
  auto communicators = collective::MakeInprocCommunicators(kPlaces, {});
  std::vector<std::vector<float>> sums(kPlaces, std::vector<float>(kCount));
  std::vector<std::thread> threads;
  for (int p = 0; p < kPlaces; ++p) {
    threads.emplace_back([&, p] {
      if (p == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto place = static_cast<size_t>(p);
      const Status status = communicators[place]
                                ->AllReduce(values[place].data(), sums[place].data(), kCount,
                                            DType::kF32, ReduceOp::kSum, {.what = "sum"})
                                ->Wait(SteadyNow() + std::chrono::seconds(60));
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]) << "all places have the same";
  return sums[0];
}

TEST(CpuDeterministic, WhoeverComesLast) {
  std::vector<std::vector<float>> values(kPlaces, std::vector<float>(kCount));
  for (size_t p = 0; p < kPlaces; ++p) {
    for (size_t i = 0; i < kCount; ++i) {
      values[p][i] = 1.0f / static_cast<float>(1 + (i * 7 + p * 131) % 97);
    }
  }
  const std::vector<float> sum = Sum(values, -1);
  for (int late = 0; late < kPlaces; ++late) EXPECT_EQ(Sum(values, late), sum) << late;
  std::swap(values[0], values[2]);
  EXPECT_NE(Sum(values, -1), sum) << "the order matters, so that it is worth fixing";
}

class CpuDeterministicTest : public JobTest {};

TEST_F(CpuDeterministicTest, ChangesNothingAndSaysSo) {
  std::vector<std::string> shas;
  for (const char* flag : {"--log_every_steps=10", "--FLAGS_cpu_deterministic=true",
                           "--FLAGS_cpu_deterministic=false"}) {
    const JobRun run = RunJob("run" + std::to_string(shas.size()), {"--mode=local"},
                              {"--steps_max=20", "--cpu_num=3", "--num_threads=2", flag});
    shas.push_back(run.result.params_sha256);
    if (shas.size() > 1) {
      EXPECT_THAT(
          run.output,
          HasSubstr(
              "cpu_deterministic: no effect, because sums over places always have one order"));
    }
  }
  EXPECT_EQ(shas[1], shas[0]);
  EXPECT_EQ(shas[2], shas[0]);
}

}  // namespace
}  // namespace tandem::trainer
