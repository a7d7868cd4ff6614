// Slices on the stand-in device (tests/support/guarded_device_module.cc). Only kernels and copies
// may access the memory of this device, and its kernels are those of the CPU. After each operation,
// a table on the device must have the bits of a table on the CPU.
#include <cstdlib>
#include <cstring>

#include "gmock/gmock.h"
#include "pserver/tables/dense_table.h"

namespace tandem::pserver {
namespace {

constexpr int64_t kNumel[] = {100, 3};

class DeviceSlices : public testing::Test {
 protected:
  void SetUp() override {
    const std::string bin = std::getenv("TANDEM_BIN_DIR");
    auto opened = exec::Backend::Cuda(bin + "/../tests/guarded_device/libtandem_cuda.so");
    ASSERT_TRUE(opened.ok()) << opened.status();
    backend_ = *std::move(opened);
    device_ = *backend_->MakeDevice(0);
  }
  std::unique_ptr<DenseTable> Make(const graph::OptimizerSpec& optimizer, bool on_device) {
    ShardConfig config;
    config.job = "job";
    config.trainers = 2;
    config.optimizer = optimizer;
    config.slices = {{"a", {kNumel[0]}, 0, kNumel[0]}, {"b", {kNumel[1]}, 0, kNumel[1]}};
    auto table = on_device ? DenseTable::Make(config, *backend_, *device_)
                           : DenseTable::Make(config, exec::Backend::Cpu(), host_);
    EXPECT_TRUE(table.ok()) << table.status();
    return *std::move(table);
  }

  std::optional<exec::Backend> backend_;
  std::unique_ptr<Device> device_;
  CpuDevice host_;
};

std::vector<float> Values(int64_t numel, int seed) {
  std::vector<float> values(static_cast<size_t>(numel));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 3.0f + static_cast<float>(seed));
  }
  return values;
}

Buffer Copied(DenseTable& table, const std::vector<float>& values) {
  Buffer buffer = *table.pool().Take(values.size() * sizeof(float));
  std::memcpy(buffer.get(), values.data(), values.size() * sizeof(float));
  return buffer;
}

std::string Bits(const Buffer& buffer, int64_t numel) {
  if (buffer == nullptr) return "none";
  return {reinterpret_cast<const char*>(buffer.get()), static_cast<size_t>(numel) * sizeof(float)};
}

void ExpectSame(DenseTable& one, DenseTable& other) {
  for (int slice = 0; slice < 2; ++slice) {
    const SliceSnapshot a = *one.Snapshot(slice), b = *other.Snapshot(slice);
    EXPECT_TRUE(Bits(a.param, kNumel[slice]) == Bits(b.param, kNumel[slice]));
    EXPECT_TRUE(Bits(a.previous, kNumel[slice]) == Bits(b.previous, kNumel[slice]));
    ASSERT_EQ(a.slots.size(), b.slots.size());
    for (size_t i = 0; i < a.slots.size(); ++i) {
      EXPECT_TRUE(Bits(a.slots[i].values, a.slots[i].numel) ==
                  Bits(b.slots[i].values, b.slots[i].numel))
          << a.slots[i].name;
    }
  }
}

// Runs steps with the gradients of one and of two trainers, immediate pushes, and pushes with delay
// compensation.
void Use(DenseTable& table) {
  for (int slice = 0; slice < 2; ++slice) {
    ASSERT_TRUE(table.SetParam(slice, Values(kNumel[slice], slice)).ok());
  }
  const std::vector<int> one = {1}, both = {0, 1};
  SliceGradients gathered(2, 2);
  for (int step = 0; step < 4; ++step) {
    const std::vector<int>& ranks = step % 2 == 0 ? both : one;
    for (const int rank : ranks) {
      for (int slice = 0; slice < 2; ++slice) {
        gathered.Put(slice, rank, Copied(table, Values(kNumel[slice], 10 * step + rank)));
      }
    }
    ASSERT_TRUE(table.ApplyStep(gathered, ranks, step < 2 ? 0.1f : 0.05f).ok());
    gathered.DropAll();
  }
  table.Pulled(0, 1, *table.Params(0));
  ASSERT_TRUE(table.Apply(0, Values(kNumel[0], 7), 0.1f).ok());
  std::vector<float> compensated(static_cast<size_t>(kNumel[0]));
  ASSERT_TRUE(*table.Compensated(0, 1, 0.5f, Values(kNumel[0], 8), compensated.data()));
  ASSERT_TRUE(table.Apply(0, compensated, 0.1f).ok());
}

TEST_F(DeviceSlices, UpdatesGiveTheBitsOfTheCpu) {
  const std::vector<graph::OptimizerSpec> optimizers = {
      {"sgd", {}},     {"momentum", {}}, {"adam", {}},
      {"adagrad", {}}, {"lamb", {}},     {"momentum", {{"l2_decay", 0.1}, {"clip_norm", 1.0}}}};
  for (const graph::OptimizerSpec& optimizer : optimizers) {
    SCOPED_TRACE(optimizer.type);
    const auto host = Make(optimizer, false), device = Make(optimizer, true);
    Use(*host);
    Use(*device);
    ExpectSame(*host, *device);
  }
}

// A checkpoint of the device or of the CPU can be loaded on the device and on the CPU.
TEST_F(DeviceSlices, ImagesGoFromPlaceToPlace) {
  const auto device = Make({"adam", {}}, true);
  Use(*device);
  for (const bool on_device : {false, true}) {
    const auto restored = Make({"adam", {}}, on_device);
    for (int slice = 0; slice < 2; ++slice) {
      const SliceSnapshot image = *device->Snapshot(slice);
      const auto floats = [](const Buffer& b, int64_t n) {
        return std::span(reinterpret_cast<const float*>(b.get()), static_cast<size_t>(n));
      };
      ASSERT_TRUE(restored->SetParam(slice, floats(image.param, kNumel[slice])).ok());
      for (const auto& slot : image.slots) {
        ASSERT_TRUE(restored->SetSlot(slice, slot.name, floats(slot.values, slot.numel)).ok());
      }
      restored->SetPrevious(slice, image.previous);
    }
    ExpectSame(*device, *restored);
    ASSERT_TRUE(restored->Apply(1, Values(kNumel[1], 9), 0.1f).ok());
    EXPECT_FALSE(Bits(*restored->Params(1), kNumel[1]) == Bits(*device->Params(1), kNumel[1]));
  }
}

}  // namespace
}  // namespace tandem::pserver
