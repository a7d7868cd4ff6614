// pserver_push_dense_merge_limit and pserver_push_sparse_merge_limit: the maximum number of steps
// in one push, if a sender sends several steps together. The limits are separate for dense
// gradients and gradients of rows.
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"
#include "trainer/ps/async_communicator.h"

namespace tandem::trainer {
namespace {

using testing::ElementsAre;

struct Pushed {
  int dense_steps = 0, row_steps = 0;
  float dense = 0, rows = 0;  // sums of the pushed values
  bool pull = false;
  friend bool operator==(const Pushed&, const Pushed&) = default;
  friend void PrintTo(const Pushed& p, std::ostream* out) {
    *out << p.dense_steps << " steps: " << p.dense << ", " << p.row_steps << " of rows: " << p.rows
         << (p.pull ? ", pull" : "");
  }
};

// Returns the pushes of steps 1 to 8, which are all in the queue when the push of step 0 ends. Each
// step has gradient 1 and one row of value 10. `dense`: number of elements of each dense gradient;
// `counts`: see RowSet.
std::vector<Pushed> EightSteps(AsyncOptions options, std::vector<int64_t> dense = {1},
                               int64_t counts = 0) {
  Mutex mu;
  CondVar cv;
  bool closed = true;
  std::vector<Pushed> seen;
  options.merge_max = 8;
  options.merge_waits = 0;
  AsyncCommunicator communicator(
      options, dense, [&](const GradientSet* push, ValueSets* pull) -> StatusOr<uint64_t> {
        MutexLock lock(mu);
        Pushed pushed{push->dense_steps, push->row_steps, 0, 0, pull != nullptr};
        for (const auto& values : push->values) pushed.dense += values[0];
        for (const RowSet& rows : push->rows) {
          for (const float v : rows.values) pushed.rows += v;
        }
        seen.push_back(pushed);
        cv.NotifyAll();
        while (closed) (void)cv.WaitUntil(mu, Time::max());
        return seen.size();
      });
  const float one = 1;
  std::vector<const float*> gradients(dense.size(), &one);
  for (uint64_t step = 0; step <= 8; ++step) {
    const RowSet row{{static_cast<int64_t>(step % 3)}, {10}, 1, counts};
    EXPECT_TRUE(communicator.Send(step, 0.5f, gradients, {row}).ok());
    if (step > 0) continue;
    MutexLock lock(mu);
    while (seen.empty()) CHECK(cv.WaitUntil(mu, SteadyNow() + std::chrono::seconds(30)));
  }
  {
    MutexLock lock(mu);
    closed = false;
    cv.NotifyAll();
  }
  EXPECT_TRUE(communicator.Finish().ok());
  EXPECT_EQ(seen.at(0).pull, true);
  seen.erase(seen.begin());
  return seen;
}

TEST(PushMergeLimit, EachKindHasItsOwn) {
  EXPECT_THAT(EightSteps({}), ElementsAre(Pushed{8, 8, 8, 80, true}));
  EXPECT_THAT(
      EightSteps({.dense_merge_max = 3}),
      ElementsAre(Pushed{3, 8, 3, 80, false}, Pushed{3, 0, 3, 0, false}, Pushed{2, 0, 2, 0, true}));
  EXPECT_THAT(EightSteps({.rows_merge_max = 4}),
              ElementsAre(Pushed{8, 4, 8, 40, false}, Pushed{0, 4, 0, 40, true}));
  EXPECT_THAT(EightSteps({.dense_merge_max = 5, .rows_merge_max = 7}),
              ElementsAre(Pushed{5, 7, 5, 70, false}, Pushed{3, 1, 3, 10, true}));
}

// For optimizers other than SGD, a push contains the mean of the gradients of its steps.
TEST(PushMergeLimit, MeansAreThoseOfAPush) {
  EXPECT_THAT(EightSteps({.dense_merge_max = 4, .rows_merge_max = 2, .sum = false}),
              ElementsAre(Pushed{4, 2, 1, 10, false}, Pushed{4, 2, 1, 10, false},
                          Pushed{0, 2, 0, 10, false}, Pushed{0, 2, 0, 10, true}));
}

TEST(PushMergeLimit, WhatIsCountedIsAddedUpInAnyCase) {
  EXPECT_THAT(EightSteps({.sum = false}, {1}, 0), ElementsAre(Pushed{8, 8, 1, 10, true}));
  EXPECT_THAT(EightSteps({.sum = false}, {1}, 1), ElementsAre(Pushed{8, 8, 1, 80, true}));
}

TEST(PushMergeLimit, RowsAlone) {
  EXPECT_THAT(EightSteps({.dense_merge_max = 2, .rows_merge_max = 4}, {}),
              ElementsAre(Pushed{0, 4, 0, 40, false}, Pushed{0, 4, 0, 40, true}));
}

TEST(PushMergeLimit, TheJobSays) {
  EXPECT_EQ(PserverModeOptions({}).async.dense_merge_max, 12);
  EXPECT_EQ(PserverModeOptions({}).async.rows_merge_max, 12);
  const PserverOptions options = PserverModeOptions(
      {{"pserver_push_dense_merge_limit", "3"}, {"pserver_push_sparse_merge_limit", "5"}});
  EXPECT_EQ(options.async.dense_merge_max, 3);
  EXPECT_EQ(options.async.rows_merge_max, 5);
}

}  // namespace
}  // namespace tandem::trainer
