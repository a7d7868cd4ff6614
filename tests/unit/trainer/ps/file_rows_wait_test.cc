// Tests the wait for rows that another trainer reads from files.
#include "trainer/ps/file_rows_wait.h"

#include "gtest/gtest.h"

namespace tandem::trainer {
namespace {

using std::chrono::minutes;

class FileRowsWaitTest : public testing::Test {
 protected:
  // Each call of `fetch` waits one minute. `ends`: the attempt that has the values; 0: none.
  // `rows_until`: attempt up to which the servers get rows.
  StatusOr<uint64_t> Await(int ends, int rows_until) {
    const auto fetch = [this, ends]() -> StatusOr<uint64_t> {
      clock_.Advance(minutes(1));
      if (++attempts_ == ends) return uint64_t{7};
      return DeadlineExceeded("trainer 0 sent only 0 of 2 slices");
    };
    const auto rows = [this, rows_until]() -> StatusOr<uint64_t> {
      return static_cast<uint64_t>(std::min(attempts_, rows_until));
    };
    return AwaitFileRows(fetch, rows, clock_);
  }

  FakeClock clock_;
  int attempts_ = 0;
};

TEST_F(FileRowsWaitTest, ReadingAFileMayTakeLongerThanOneWait) {
  EXPECT_EQ(*Await(/*ends=*/10, /*rows_until=*/0), 7u);
  EXPECT_EQ(attempts_, 10);
}

TEST_F(FileRowsWaitTest, RowsThatArriveProlongTheWait) {
  EXPECT_EQ(*Await(/*ends=*/100, /*rows_until=*/90), 7u);
  EXPECT_EQ(attempts_, 100);
}

TEST_F(FileRowsWaitTest, WithoutProgressItEnds) {
  EXPECT_EQ(Await(/*ends=*/0, /*rows_until=*/5).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(attempts_, 20);
}

TEST_F(FileRowsWaitTest, OtherErrorsEndItAtOnce) {
  const auto refused = AwaitFileRows([] { return StatusOr<uint64_t>(Aborted("restored")); },
                                     [] { return StatusOr<uint64_t>(0); }, clock_);
  EXPECT_EQ(refused.status().code(), StatusCode::kAborted);
}

}  // namespace
}  // namespace tandem::trainer
