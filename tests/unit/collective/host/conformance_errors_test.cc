// Errors that every communicator must report: aborts, lost ranks, calls that differ between ranks,
// deadlines and bad arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "tests/unit/collective/backends.h"

namespace tandem::collective {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using ErrorsTest = ConformanceTest;

TEST_P(ErrorsTest, AbortInTheMiddleNamesTheReason) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  World world = Make();
  const int culprit = size() - 1;
  OnEveryRank(size(), [&](int r) {
    if (r == culprit) {
      world[r]->Abort("out of data");
      world[r]->Abort("again");  // ignored: only the first Abort has an effect
    }
    std::vector<float> data(1000);
    const auto work = world[r]->AllReduce(data.data(), data.data(), data.size(), DType::kF32,
                                          ReduceOp::kSum, {.what = "fc_0.w_0@GRAD"});
    const Status status = work->Wait(In(10));
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("out of data"));
    EXPECT_THAT(message, HasSubstr("AllReduce(sum, f32[1000]) of \"fc_0.w_0@GRAD\", operation 1"));
    if (r != culprit) {
      EXPECT_THAT(message, ContainsRegex(absl::StrFormat("rank %d( \\(.*\\))? aborted", culprit)));
    }
    const Status later = world[r]->Barrier()->Wait(In(10));
    EXPECT_EQ(later.code(), StatusCode::kAborted);
    EXPECT_THAT(std::string(later.message()), HasSubstr("out of data"));
  });
}

TEST_P(ErrorsTest, ClosedInTheMiddle) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  World world = Make();
  std::latch done(size());
  OnEveryRank(size(), [&](int r) {
    std::vector<float> data(100000);
    const auto call = [&] {
      return world[r]->AllReduce(data.data(), data.data(), data.size(), DType::kF32, ReduceOp::kSum,
                                 {.what = "w"});
    };
    EXPECT_EQ(call()->Wait(In(120)), OkStatus());
    done.arrive_and_wait();
    if (r == 0) {
      world[0].reset();
      return;
    }
    const Time before = SteadyNow();
    const Status status = call()->Wait(In(120));
    EXPECT_LT(Seconds(SteadyNow() - before), 60.0);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("operation 2"));
  });
}

TEST_P(ErrorsTest, DifferentCallsAreReportedOnAllRanks) {
  if (size() == 1) GTEST_SKIP() << "nobody to differ from";
  for (const bool other_op : {false, true}) {
    World world = Make();
    OnEveryRank(size(), [&](int r) {
      std::vector<float> data(20);
      std::shared_ptr<Work> work;
      if (r == 0 && other_op) {
        work = world[r]->AllGather(data.data(), data.data(), 20 / size(), DType::kF32,
                                   {.what = "b", .deadline = In(10)});
      } else {
        work = world[r]->AllReduce(data.data(), data.data(), r == 0 ? 10 : 20, DType::kF32,
                                   ReduceOp::kSum, {.what = "a", .deadline = In(10)});
      }
      const Status status = work->Wait(In(20));
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
      const std::string message(status.message());
      EXPECT_THAT(message, HasSubstr("AllReduce(sum, f32[20]) of \"a\""));
      EXPECT_THAT(message, HasSubstr(other_op ? "AllGather(f32" : "AllReduce(sum, f32[10])"));
      EXPECT_THAT(message, HasSubstr("[TD3004]"));
    });
  }
}

// Rank 0 sends a message other than the message that rank 1 expects, or runs a collective while
// rank 1 waits for a message.
TEST_P(ErrorsTest, DifferentMessagesAreReportedOnAllRanks) {
  if (size() == 1) GTEST_SKIP() << "nobody to differ from";
  for (const bool collective : {false, true}) {
    World world = Make();
    OnEveryRank(size(), [&](int r) {
      std::vector<float> data(20);
      const auto reduce = [&] {
        return world[r]
            ->AllReduce(data.data(), data.data(), 20, DType::kF32, ReduceOp::kSum,
                        {.what = "sum", .deadline = In(10)})
            ->Wait(In(20));
      };
      Status status;
      if (r == 0 && !collective) {
        status = world[0]
                     ->Send(data.data(), 10, DType::kF32, 1, {.what = "a", .deadline = In(10)})
                     ->Wait(In(20));
      }
      if (r == 1) {
        status = world[1]
                     ->Recv(data.data(), 20, DType::kF32, 0, {.what = "b", .deadline = In(10)})
                     ->Wait(In(20));
      }
      if (status.ok()) status = reduce();
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
      const std::string message(status.message());
      EXPECT_THAT(message,
                  HasSubstr(collective ? "AllReduce(sum, f32[20]) of \"sum\" as operation 1"
                                       : "SendRecv(f32[10], from rank 0 to rank 1) of \"a\" as "
                                         "message 1"));
      if (r == 1) {
        EXPECT_THAT(message, HasSubstr("Recv(f32[20], from rank 0) of \"b\""));
      }
    });
  }
}

TEST_P(ErrorsTest, DeadlineNamesWhomItWaitsFor) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  World world = Make();
  OnEveryRank(size(), [&](int r) {
    if (r == 0) return;  // rank 0 makes no call
    const Status status = world[r]->Barrier({.what = "end", .deadline = In(0.1)})->Wait(In(10));
    EXPECT_FALSE(status.ok());
    if (size() == 2) {
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0"));
    }
  });
}

TEST_P(ErrorsTest, BadArgumentsFailAlone) {
  World world = Make();
  OnEveryRank(size(), [&](int r) {
    Communicator& comm = *world[r];
    std::vector<float> data(16);
    const auto code = [](const std::shared_ptr<Work>& work) { return work->Wait(In(10)).code(); };
    EXPECT_EQ(code(comm.AllReduce(data.data(), data.data(), 4, DType::kU8, ReduceOp::kSum)),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(code(comm.Broadcast(data.data(), 4, DType::kF32, size())),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(code(comm.AllReduce(nullptr, data.data(), 4, DType::kF32, ReduceOp::kSum)),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(code(comm.AllReduce(data.data(), data.data() + 1, 4, DType::kF32, ReduceOp::kSum)),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(
        code(comm.AllReduce(data.data(), data.data(), ~size_t{0}, DType::kF32, ReduceOp::kSum)),
        StatusCode::kInvalidArgument);
    for (const int peer : {r, size(), -1}) {
      EXPECT_EQ(code(comm.Send(data.data(), 4, DType::kF32, peer)), StatusCode::kInvalidArgument);
    }
    if (size() > 1) {
      const int peer = r == 0 ? 1 : 0;
      EXPECT_EQ(code(comm.Recv(nullptr, 4, DType::kF32, peer)), StatusCode::kInvalidArgument);
      EXPECT_EQ(code(comm.AllToAll(data.data(), data.data() + 1, 2, DType::kF32)),
                StatusCode::kInvalidArgument);
      EXPECT_EQ(code(comm.ReduceScatter(data.data(), data.data() + r * 2 + 1, 2, DType::kF32,
                                        ReduceOp::kSum)),
                StatusCode::kInvalidArgument);
    }
    EXPECT_EQ(code(comm.Barrier()), StatusCode::kOk);
  });
}

INSTANTIATE_TEST_SUITE_P(All, ErrorsTest, ::testing::ValuesIn(AllBackends()), NameOf);
INSTANTIATE_TEST_SUITE_P(Groups, ErrorsTest, ::testing::ValuesIn(GroupedBackends()), NameOf);
INSTANTIATE_TEST_SUITE_P(Trees, ErrorsTest, ::testing::ValuesIn(TreeBackends()), NameOf);

}  // namespace
}  // namespace tandem::collective
