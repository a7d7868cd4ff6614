#include "trainer/modes/comms/overlapped_flight.h"

#include "gmock/gmock.h"

namespace tandem::trainer {
namespace {

// Records the results that End passes on.
struct Results {
  std::vector<Status> seen;
  OverlappedFlight::Done Add() {
    return [this](const Status& status) { seen.push_back(status); };
  }
};

TEST(OverlappedFlightTest, EndWaitsForTheResult) {
  OverlappedFlight flight;
  Results results;
  flight.Begin();
  flight.End(results.Add());
  EXPECT_TRUE(results.seen.empty());
  flight.Complete(Aborted("rank 1 is lost"));
  ASSERT_EQ(results.seen.size(), 1u);
  EXPECT_EQ(results.seen[0], Aborted("rank 1 is lost"));
}

TEST(OverlappedFlightTest, AResultWaitsForEnd) {
  OverlappedFlight flight;
  Results results;
  for (const Status& result : {Aborted("rank 1 is lost"), OkStatus()}) {
    flight.Begin();
    flight.Complete(result);
    EXPECT_EQ(flight.WaitUntilEnded(Time::max()), result);
    flight.End(results.Add());
    EXPECT_EQ(results.seen.back(), result);
  }
  EXPECT_EQ(results.seen.size(), 2u);
}

TEST(OverlappedFlightTest, WithoutBeginThereIsNothingToWaitFor) {
  OverlappedFlight flight;
  Results results;
  flight.End(results.Add());
  EXPECT_THAT(results.seen, testing::ElementsAre(OkStatus()));
  EXPECT_EQ(flight.WaitUntilEnded(Time::max()), OkStatus());
  flight.Begin();
  EXPECT_EQ(flight.WaitUntilEnded(SteadyNow()).code(), StatusCode::kDeadlineExceeded);
  flight.Complete(OkStatus());
}

}  // namespace
}  // namespace tandem::trainer
