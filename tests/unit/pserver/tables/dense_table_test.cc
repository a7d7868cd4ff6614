// Tests steps of dense slices on several threads.
#include "pserver/tables/dense_table.h"

#include <cmath>
#include <cstring>

#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

// With these sizes, three threads get two parts of work. One of the parts also contains the small
// slices.
const std::vector<int64_t> kNumel = {70'000, 3, 100'000, 1, 9};

// Returns the current parameters, the previous parameters and the slots, after some steps of two
// trainers.
std::vector<std::string> Train(ForkJoin* workers) {
  ShardConfig config;
  config.job = "job";
  config.trainers = 2;
  config.optimizer = {.type = "adagrad", .attrs = {}};
  for (size_t i = 0; i < kNumel.size(); ++i) {
    config.slices.push_back({"v" + std::to_string(i), {kNumel[i]}, 0, kNumel[i]});
  }
  const exec::Backend backend = exec::Backend::Cpu();
  CpuDevice device;
  const auto table = *DenseTable::Make(config, backend, device, nullptr, workers);
  const auto values = [&](int slice, int seed) {
    Buffer buffer = *table->pool().Take(static_cast<size_t>(kNumel[slice]) * sizeof(float));
    auto* const to = reinterpret_cast<float*>(buffer.get());
    for (int64_t i = 0; i < kNumel[slice]; ++i) to[i] = std::sin(static_cast<float>(i * 3 + seed));
    return buffer;
  };
  const int slices = static_cast<int>(kNumel.size());
  for (int s = 0; s < slices; ++s) {
    const Buffer first = values(s, s);
    CHECK(table
              ->SetParam(
                  s, {reinterpret_cast<const float*>(first.get()), static_cast<size_t>(kNumel[s])})
              .ok());
  }
  const std::vector<int> both = {0, 1};
  SliceGradients gathered(kNumel.size(), 2);
  for (int step = 0; step < 5; ++step) {
    for (int trainer : both) {
      for (int s = 0; s < slices; ++s) gathered.Put(s, trainer, values(s, 7 * step + trainer));
    }
    if (step == 2) table->BeginSnapshot();  // each thread copies its slices before it updates them
    CHECK(table->ApplyStep(gathered, both, 0.1f).ok());
    gathered.DropAll();
  }
  std::vector<std::string> all;
  const auto add = [&all](const Buffer& buffer, int64_t numel) {
    all.emplace_back(reinterpret_cast<const char*>(buffer.get()),
                     static_cast<size_t>(numel) * sizeof(float));
  };
  const auto cut = table->snapshot().Finish();
  CHECK(cut.ok()) << cut.status();
  for (int s = 0; s < slices; ++s) {
    const SliceSnapshot now = *table->Snapshot(s);
    for (const SliceSnapshot& image : {now, (*cut)[static_cast<size_t>(s)]}) {
      add(image.param, kNumel[s]);
      add(image.previous, kNumel[s]);
      for (const auto& slot : image.slots) add(slot.values, slot.numel);
    }
  }
  return all;
}

TEST(DenseTableTest, ThreadsThatShareAStepGiveTheBitsOfOne) {
  ForkJoin three("test", 3);
  const std::vector<std::string> alone = Train(nullptr);
  ASSERT_EQ(alone.size(), kNumel.size() * 2 * 3);
  const std::vector<std::string> shared = Train(&three);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(alone[i] == shared[i]) << i;
  EXPECT_FALSE(alone[0] == alone[1]);  // the current and the previous parameters differ
}

TEST(DenseTableTest, WithoutSlicesThereIsNothingToShare) {
  ForkJoin three("test", 3);
  ShardConfig config;
  config.job = "job";
  config.trainers = 1;
  config.optimizer = {.type = "sgd", .attrs = {}};
  const exec::Backend backend = exec::Backend::Cpu();
  CpuDevice device;
  const auto table = *DenseTable::Make(config, backend, device, nullptr, &three);
  const std::vector<int> one = {0};
  EXPECT_TRUE(table->ApplyStep(SliceGradients(0, 1), one, 0.1f).ok());
}

}  // namespace
}  // namespace tandem::pserver
