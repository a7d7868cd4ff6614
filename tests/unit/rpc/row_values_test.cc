// The errors of rows that travel as bf16 and int8 are within the documented bounds.
#include "common/codec/row_values.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"

namespace tandem::codec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kDim = 13;

// Rows whose magnitudes differ by many powers of two.
std::vector<float> SomeRows(uint32_t seed, size_t rows) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (size_t r = 0; r < rows; ++r) {
    const float factor = std::ldexp(1.0f, static_cast<int>(random() % 60) - 30);
    for (size_t i = 0; i < kDim; ++i) values.push_back(normal(random) * factor);
  }
  return values;
}

std::vector<float> ThereAndBack(RowFormat format, const std::vector<float>& values, size_t dim) {
  const CodedRows coded = EncodeRows(format, values, dim);
  const size_t rows = values.size() / dim;
  EXPECT_EQ(coded.bytes.size(), values.size() * ValueBytes(format));
  const auto decoded = DecodeRows(format, coded.bytes, coded.scales, rows, dim);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return *decoded;
}

TEST(RowValuesTest, F32IsExact) {
  std::vector<float> values = SomeRows(1, 50);
  values[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ThereAndBack(RowFormat::kF32, values, kDim), values);
}

TEST(RowValuesTest, Bf16HasAnErrorOfAtMostTwoToTheMinus8OfTheValue) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    const std::vector<float> values = SomeRows(seed, 400);
    const std::vector<float> decoded = ThereAndBack(RowFormat::kBF16, values, kDim);
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = std::fabs(static_cast<double>(values[i]) - decoded[i]);
      ASSERT_LE(error, std::ldexp(std::fabs(values[i]), -8)) << values[i];
      if (values[i] != 0) largest = std::max(largest, error / std::fabs(values[i]));
    }
    EXPECT_GT(largest, std::ldexp(1.0, -9));  // the bound is near
  }
  EXPECT_TRUE(std::isnan(ThereAndBack(RowFormat::kBF16, {std::nanf("")}, 1)[0]));
  EXPECT_TRUE(
      std::isinf(ThereAndBack(RowFormat::kBF16, {-std::numeric_limits<float>::infinity()}, 1)[0]));
}

TEST(RowValuesTest, Int8HasAnErrorOfAtMostHalfAStepOfItsRow) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    const std::vector<float> values = SomeRows(seed, 400);
    const std::vector<float> decoded = ThereAndBack(RowFormat::kInt8, values, kDim);
    double largest = 0;
    for (size_t row = 0; row < values.size(); row += kDim) {
      double most = 0;
      for (size_t i = row; i < row + kDim; ++i) {
        most = std::max(most, std::fabs(static_cast<double>(values[i])));
      }
      for (size_t i = row; i < row + kDim; ++i) {
        const double error = std::fabs(static_cast<double>(values[i]) - decoded[i]);
        ASSERT_LE(error, most / 254 * (1 + 1e-5)) << values[i];
        largest = std::max(largest, error / most);
      }
    }
    EXPECT_GT(largest, 0.9 / 254);
  }
}

TEST(RowValuesTest, SpecialRowsOfInt8) {
  EXPECT_THAT(ThereAndBack(RowFormat::kInt8, {0, 0, 0}, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(ThereAndBack(RowFormat::kInt8, {-2, 1, 2}, 3)[0], -2);
  // A row with NaN or infinity is NaN; the next row is not affected.
  const std::vector<float> rows = ThereAndBack(
      RowFormat::kInt8, {1, std::numeric_limits<float>::infinity(), std::nanf(""), 1, 1, 1}, 2);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(rows[i])) << i;
  EXPECT_EQ(rows[4], 1);
  // The smallest values have no scale.
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_THAT(ThereAndBack(RowFormat::kInt8, {tiny, -tiny}, 2), ElementsAre(0, 0));
}

TEST(RowValuesTest, MistakesAreNamed) {
  EXPECT_THAT(std::string(ParseRowFormat("bf17").status().message()), HasSubstr("bf16"));
  EXPECT_EQ(*ParseRowFormat("int8"), RowFormat::kInt8);
  const CodedRows coded = EncodeRows(RowFormat::kInt8, std::vector<float>{1, 2}, 2);
  EXPECT_FALSE(DecodeRows(RowFormat::kInt8, coded.bytes, {}, 1, 2).ok());
  EXPECT_FALSE(DecodeRows(RowFormat::kBF16, coded.bytes, {}, 1, 2).ok());
  EXPECT_FALSE(DecodeRows(RowFormat::kF32, coded.bytes, coded.scales, 1, 2).ok());
}

}  // namespace
}  // namespace tandem::codec
