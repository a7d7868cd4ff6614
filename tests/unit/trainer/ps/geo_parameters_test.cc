#include "trainer/ps/geo_parameters.h"

#include "gmock/gmock.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;

// Two trainers share one parameter of two elements. The test computes the servers' part of the
// exchange.
TEST(GeoParametersTest, EveryTrainersWayIsAddedOnce) {
  std::vector<float> a = {0, 8}, b = a, servers = a;
  GeoParameters of_a({{"w", a.data(), 2}}, 2), of_b({{"w", b.data(), 2}}, 2);
  const auto exchange = [&](GeoParameters& trainer) {
    const std::vector<ps::PsConstTensor> add = trainer.Differences();
    const std::vector<ps::PsTensor> to = trainer.Pulled();
    ASSERT_EQ(add.size(), 1u);
    ASSERT_EQ(add[0].variable, "w");
    for (size_t e = 0; e < 2; ++e) to[0].data[e] = servers[e] += add[0].data[e];
    trainer.Take();
  };
  a = {4, 8};
  exchange(of_a);
  EXPECT_THAT(servers, ElementsAre(2, 8)) << "half of its way";
  EXPECT_THAT(a, ElementsAre(4, 8)) << "and it goes on from where it is";
  b = {0, 0};
  exchange(of_b);
  EXPECT_THAT(servers, ElementsAre(2, 4));
  EXPECT_THAT(b, ElementsAre(2, 0)) << "with what the other did";
  exchange(of_a);
  EXPECT_THAT(servers, ElementsAre(3, 4)) << "what is left of its way";
  EXPECT_THAT(a, ElementsAre(4, 4));
}

}  // namespace
}  // namespace tandem::trainer
