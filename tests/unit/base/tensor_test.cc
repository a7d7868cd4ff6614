// Tests of common/tensor: element types, shapes, places, devices, tensors, sparse rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "common/tensor/sparse_rows.h"
#include "common/tensor/tensor.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DType, NamesAndNumbersGoBothWays) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kU8}) {
    EXPECT_EQ(*ParseDType(Name(dtype)), dtype);
    EXPECT_EQ(*DTypeFromNumber(static_cast<int>(dtype)), dtype);
  }
  EXPECT_FALSE(ParseDType("f64").ok());
  EXPECT_FALSE(DTypeFromNumber(0).ok());
  EXPECT_FALSE(DTypeFromNumber(7).ok());
}

TEST(Shape, ChecksWhatComesFromOutside) {
  const auto parse = [](std::vector<int64_t> dims) { return ParseShape(dims); };
  EXPECT_EQ(parse({2, 3})->numel(), 6);
  EXPECT_EQ(parse({})->numel(), 1);
  EXPECT_EQ(parse({5, 0})->numel(), 0);
  EXPECT_FALSE(parse({2, -1}).ok());
  EXPECT_FALSE(parse({int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(parse({1, 1, 1, 1, 1, 1, 1, 1, 1}).ok());
  EXPECT_EQ(ToString(TensorDesc{DType::kBF16, {4, 5}}), "bf16[4,5]");
}

TEST(Place, Parses) {
  EXPECT_EQ(*ParsePlace("cpu"), Place{});
  EXPECT_EQ(*ParsePlace("cuda:3"), (Place{PlaceKind::kCuda, 3}));
  for (const char* bad : {"", "tpu", "cuda:", "cuda:-1", "cuda:1x"}) {
    EXPECT_FALSE(ParsePlace(bad).ok()) << bad;
  }
}

#if defined(__SSE__)
// Conversions must keep f16 subnormals, also in a thread that flushes f32 subnormals to zero.
TEST(HalfTypes, SubnormalsOfF16AreKeptWhereThoseOfF32AreZero) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  const float smallest = F16ToF32(0x0001), largest = F16ToF32(0x83ff);
  const uint16_t back = F32ToF16(0x1p-24f);
  _mm_setcsr(before);
  EXPECT_EQ(smallest, 0x1p-24f);
  EXPECT_EQ(largest, -1023 * 0x1p-24f);
  EXPECT_EQ(back, 0x0001);
}
#endif

TEST(HalfTypes, RoundToNearestEven) {
  EXPECT_EQ(F32ToBF16(1.0f), 0x3f80);
  EXPECT_EQ(F32ToBF16(1.00390625f), 0x3f80) << "halfway: to the even one below";
  EXPECT_EQ(F32ToBF16(1.01171875f), 0x3f82) << "halfway: to the even one above";
  EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(F16ToF32(F32ToF16(65504.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(F16ToF32(F32ToF16(65536.0f))));
  EXPECT_EQ(F32ToF16(1.00048828125f), 0x3c00) << "halfway: to the even one below";
  EXPECT_EQ(F32ToF16(1.00146484375f), 0x3c02) << "halfway: to the even one above";
  EXPECT_EQ(F32ToF16(0x1p-25f), 0x0000) << "half of the smallest: to the even one below";
  EXPECT_EQ(F32ToF16(-0x1.8p-24f), 0x8002) << "subnormal, halfway: to the even one above";
  EXPECT_EQ(F32ToF16(65519.0f), 0x7bff);
  EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(F16ToF32(0x7c01)));
  for (int bits = 0; bits < 0x7f80; ++bits) {
    ASSERT_EQ(F32ToBF16(BF16ToF32(static_cast<uint16_t>(bits))), bits);
  }
  for (int bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(F32ToF16(F16ToF32(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(CpuDevice, AlignsAndCounts) {
  CpuDevice device;
  {
    const auto a = device.Allocate(1);
    const auto b = device.Allocate(1000);
    const auto c = device.Allocate(0);
    for (const auto* p : {&a, &b, &c}) {
      ASSERT_TRUE(p->ok());
      EXPECT_EQ(reinterpret_cast<uintptr_t>((*p)->get()) % Device::kAlignment, 0u);
    }
    EXPECT_EQ(device.bytes_in_use(), 64 + 1024);
  }
  EXPECT_EQ(device.bytes_in_use(), 0);
  EXPECT_EQ(device.bytes_peak(), 64 + 1024);
  EXPECT_EQ(device.Allocate(size_t{1} << 60).status().code(), StatusCode::kResourceExhausted);
}

TEST(Tensor, CopiesShareMemory) {
  CpuDevice device;
  const Tensor a = *Tensor::Make({DType::kF32, {2, 2}}, device);
  const Tensor b = a;
  a.span<float>()[3] = 5.0f;
  EXPECT_EQ(b.span<float>()[3], 5.0f);
}

SparseRows Rows(Device& device, std::vector<int64_t> ids) {
  SparseRows rows;
  rows.height = 10;
  rows.values = *Tensor::Make({DType::kF32, {static_cast<int64_t>(ids.size()), 2}}, device);
  for (size_t i = 0; i < ids.size() * 2; ++i) {
    rows.values.span<float>()[i] = static_cast<float>(i + 1);
  }
  rows.rows = std::move(ids);
  return rows;
}

TEST(SparseRows, MergedAddsDuplicates) {
  CpuDevice device;
  const auto merged = Rows(device, {7, 2, 7}).Merged(device);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(merged->rows, ElementsAre(2, 7));
  EXPECT_THAT(merged->values.span<float>(), ElementsAre(3, 4, 1 + 5, 2 + 6));
  EXPECT_TRUE(Rows(device, {}).Merged(device).ok());
}

TEST(SparseRows, RefusesRowsOutside) {
  CpuDevice device;
  EXPECT_THAT(std::string(Rows(device, {3, 10}).Check().message()), HasSubstr("row 10"));
  EXPECT_FALSE(Rows(device, {-1}).Check().ok());
  SparseRows uneven = Rows(device, {1, 2});
  uneven.rows.pop_back();
  EXPECT_FALSE(uneven.Check().ok());
}

}  // namespace
}  // namespace tandem
