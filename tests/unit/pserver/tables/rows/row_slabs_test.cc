// Tests the memory of rows that all have the same length.
#include "pserver/tables/rows/row_slabs.h"

#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

constexpr int64_t kFloats = 60 << 10;  // length of a row in floats: four rows fill a slab

TEST(RowSlabsTest, ARowKeepsWhatWasSet) {
  RowSlabs slabs(3, /*clicks=*/true, 100);
  ASSERT_TRUE(slabs.Grow(2).ok());
  for (const uint32_t row : {0u, 1u}) {
    slabs.Init(row, 70 + row);
    std::fill_n(slabs.values(row), 3, static_cast<float>(row));
    slabs.SetUse(row, {.show = 5, .click = 2, .last = 9 + row});
    slabs.mark(row) = static_cast<uint8_t>(3 + row);
  }
  EXPECT_EQ(slabs.id(0), 70u);
  EXPECT_EQ(slabs.values(0)[2], 0.0f);
  EXPECT_EQ(slabs.values(1)[0], 1.0f);
  EXPECT_EQ(slabs.Use(0).click, 2.0f);
  EXPECT_EQ(slabs.Use(1).last, 10u);
  EXPECT_EQ(slabs.mark(0), 3);
  slabs.Copy(1, 0);
  EXPECT_EQ(slabs.id(0), 71u);
  EXPECT_EQ(slabs.values(0)[2], 1.0f);
  EXPECT_EQ(slabs.Use(0).last, 10u);
  EXPECT_EQ(slabs.mark(0), 4);
  slabs.Init(0, 72);
  EXPECT_EQ(slabs.Use(0).show, 0.0f);
  EXPECT_EQ(slabs.mark(0), 0);
}

TEST(RowSlabsTest, ClicksAreStoredOnlyIfRequested) {
  RowSlabs slabs(3, /*clicks=*/false, 100);
  ASSERT_TRUE(slabs.Grow(1).ok());
  slabs.SetUse(0, {.show = 5, .click = 2, .last = 9});
  EXPECT_EQ(slabs.Use(0).show, 5.0f);
  EXPECT_EQ(slabs.Use(0).click, 0.0f);
}

TEST(RowSlabsTest, AnEmptySlabIsFreed) {
  RowSlabs slabs(kFloats, /*clicks=*/false, 100);
  ASSERT_TRUE(slabs.Grow(4).ok());
  const size_t one = slabs.bytes();
  ASSERT_TRUE(slabs.Grow(1).ok());
  EXPECT_EQ(slabs.bytes(), 2 * one);
  slabs.RemoveLast();
  EXPECT_EQ(slabs.bytes(), one);
  while (slabs.size() > 0) slabs.RemoveLast();
  EXPECT_EQ(slabs.bytes(), 0u);
}

TEST(RowSlabsTest, GrowAddsAllRowsOrNone) {
  RowSlabs slabs(3, /*clicks=*/false, 10);
  ASSERT_TRUE(slabs.Grow(8).ok());
  EXPECT_EQ(slabs.Grow(3).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(slabs.size(), 8u);
  EXPECT_TRUE(slabs.Grow(2).ok());
}

}  // namespace
}  // namespace tandem::pserver
