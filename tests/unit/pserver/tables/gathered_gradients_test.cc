// Tests the container for the gradients of a step, by item and trainer.
#include "pserver/tables/gathered_gradients.h"

#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

using Gradients = GatheredGradients<int>;

TEST(GatheredGradientsTest, CountsTheItemsOfATrainer) {
  Gradients gradients(3, 2);
  gradients.Put(0, 1, 5);
  gradients.Put(2, 1, 0);
  EXPECT_TRUE(gradients.Has(2, 1));
  EXPECT_FALSE(gradients.Has(2, 0));
  EXPECT_EQ(gradients.count(1), 2u);
  EXPECT_EQ(gradients.count(0), 0u);
  EXPECT_EQ(gradients.Get(0, 1), 5);
}

TEST(GatheredGradientsTest, DropLeavesTheOtherTrainers) {
  Gradients gradients(2, 2);
  for (const int trainer : {0, 1}) gradients.Put(1, trainer, trainer);
  gradients.Drop(0);
  EXPECT_FALSE(gradients.Has(1, 0));
  EXPECT_EQ(gradients.count(0), 0u);
  EXPECT_EQ(gradients.count(1), 1u);
  gradients.Put(1, 0, 7);
  gradients.DropAll();
  EXPECT_EQ(gradients.count(0) + gradients.count(1), 0u);
}

TEST(GatheredGradientsTest, ARemovedItemIsNotCounted) {
  Gradients gradients(2, 2);
  gradients.Put(0, 0, 1);
  gradients.Put(1, 0, 2);
  gradients.Put(1, 1, 3);
  gradients.RemoveItem(0);
  EXPECT_EQ(gradients.items(), 1u);
  EXPECT_EQ(gradients.count(0), 1u);
  EXPECT_EQ(gradients.count(1), 1u);
  EXPECT_EQ(gradients.Get(0, 1), 3);
  gradients.AddItem();
  EXPECT_FALSE(gradients.Has(1, 0));
}

}  // namespace
}  // namespace tandem::pserver
