// The last reduction of a step starts only after the servers have accepted this rank's rows.
#include "trainer/modes/comms/push_before_reduce_comm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A handler that ends a started call only when the test calls End.
class Fake final : public exec::CommHandler {
 public:
  StatusOr<int> Register(const exec::CommNode&) override { return count_++; }
  void Start(int index, int64_t, exec::CommDone* done) override {
    started.push_back(index);
    done_[index] = done;
  }
  Duration timeout() const override { return std::chrono::seconds(5); }
  void End(int index, const Status& status = OkStatus()) { done_.at(index)->Complete(status); }

  std::vector<int> started;

 private:
  int count_ = 0;
  std::map<int, exec::CommDone*> done_;
};

class PushFirstTest : public ::testing::Test {
 protected:
  PushFirstTest() {
    for (const char* type : {"pull_rows", "c_allreduce_sum", "c_allreduce_sum", "push_rows"}) {
      ops_.push_back({.type = type});
    }
    for (const ops::Op& op : ops_) {
      exec::CommNode node;
      node.op = &op;
      EXPECT_TRUE(first_.Register(node).ok());
    }
  }
  static constexpr int kPull = 0, kEarly = 1, kLast = 2, kPush = 3;
  void Start(int index) {
    done_[index].Reset();
    first_.Start(index, 7, &done_[index]);
  }
  Status Ended(int index) { return done_[index].Wait(SteadyNow()); }

  std::vector<ops::Op> ops_;
  Fake fake_;
  PushBeforeReduceComm first_{fake_};
  exec::CommDone done_[4];
};

TEST_F(PushFirstTest, TheLastReductionWaitsForThePush) {
  for (int step = 0; step < 3; ++step) {
    fake_.started.clear();
    for (const int node : {kPull, kEarly, kLast, kPush}) Start(node);
    EXPECT_THAT(fake_.started, ElementsAre(kPull, kEarly, kPush));
    for (const int node : {kPull, kEarly}) fake_.End(node);
    EXPECT_THAT(fake_.started, ElementsAre(kPull, kEarly, kPush));
    fake_.End(kPush);
    EXPECT_THAT(fake_.started, ElementsAre(kPull, kEarly, kPush, kLast));
    EXPECT_EQ(Ended(kPush), OkStatus());
    EXPECT_EQ(Ended(kLast).code(), StatusCode::kDeadlineExceeded);
    fake_.End(kLast);
    EXPECT_EQ(Ended(kLast), OkStatus());
  }
}

TEST_F(PushFirstTest, ItBeginsAtOnceBehindAPushThatEnded) {
  for (int step = 0; step < 3; ++step) {
    fake_.started.clear();
    Start(kPush);
    fake_.End(kPush);
    Start(kLast);
    EXPECT_THAT(fake_.started, ElementsAre(kPush, kLast));
    fake_.End(kLast);
  }
}

// After any failure, the rank does not know whether the servers accepted its rows. Therefore it
// must not complete the step.
TEST_F(PushFirstTest, NothingWaitsForWhatHasFailed) {
  for (const int failing : {kPull, kEarly, kPush}) {
    for (const int node : {kPull, kEarly, kLast, kPush}) Start(node);
    fake_.End(failing, Unavailable("a peer is gone"));
    EXPECT_EQ(Ended(kLast).code(), StatusCode::kUnavailable);
    fake_.started.clear();
    Start(kLast);
    EXPECT_THAT(fake_.started, IsEmpty());
    EXPECT_EQ(Ended(kLast).code(), StatusCode::kUnavailable);
    first_.Reset();
  }
}

// If a step is aborted and repeated, the push of the aborted attempt does not count.
TEST_F(PushFirstTest, AStepThatIsDoneAgainWaitsAgain) {
  for (const int node : {kEarly, kPush}) Start(node);
  fake_.End(kPush);
  first_.Reset();
  fake_.started.clear();
  for (const int node : {kEarly, kLast, kPush}) Start(node);
  EXPECT_THAT(fake_.started, ElementsAre(kEarly, kPush));
  fake_.End(kPush);
  EXPECT_THAT(fake_.started, ElementsAre(kEarly, kPush, kLast));
}

}  // namespace
}  // namespace tandem::trainer
