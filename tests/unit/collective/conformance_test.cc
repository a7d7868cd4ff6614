// The same suite over every communicator: ranks x sizes x types x in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <latch>

#include "tests/unit/collective/world.h"

namespace tandem {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>,
                            std::bit_cast<uint32_t, float>);
}

struct Backend {
  const char* name;
  World (*make)(int size);
};
World MakeInproc(int size) { return MakeInprocCommunicators(size); }
// Two bytes in a pipe and eight in a piece: every path that stops in the middle.
World MakeNarrow(int size) {
  HostCommunicatorConfig config;
  config.direct_bytes_max = 16;
  config.pair_bytes_max = 64;
  config.piece_bytes_max = 11;
  World world;
  for (auto& transport : MakeInprocTransports(size, 13)) {
    world.push_back(std::make_unique<HostCommunicator>(std::move(transport), config));
  }
  return world;
}
World MakeTcp(int size) { return MakeTcpWorld(size); }
World MakeShm(int size) { return MakeShmWorld(size); }
World MakeGroups(int size, HierarchyForm form) {
  HostCommunicatorConfig config;
  config.direct_bytes_max = 16;
  config.pair_bytes_max = 64;
  config.group = size % 3 == 0 ? 3 : size % 2 == 0 ? 2 : 1;
  config.form = form;
  return MakeInprocCommunicators(size, config);
}
World MakeLeaders(int size) { return MakeGroups(size, HierarchyForm::kLeaders); }
World MakeShards(int size) { return MakeGroups(size, HierarchyForm::kShards); }
World MakeTree(int size) {
  HostCommunicatorConfig config;
  config.direct_bytes_max = 16;
  config.pair_bytes_max = 64;
  config.tree_order = true;
  return MakeInprocCommunicators(size, config);
}
const Backend kBackends[] = {
    {"inproc", MakeInproc}, {"narrow", MakeNarrow}, {"tcp", MakeTcp}, {"shm", MakeShm}};
const Backend kGroups[] = {{"leaders", MakeLeaders}, {"shards", MakeShards}};

const Backend kTrees[] = {{"tree", MakeTree}};

const DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64};

// Small whole numbers, which every type holds exactly, in any order of adding.
void Put(DType dtype, std::vector<std::byte>& to, size_t i, int value) {
  std::byte* at = to.data() + i * SizeOf(dtype);
  const auto put = [at](auto v) { std::memcpy(at, &v, sizeof(v)); };
  switch (dtype) {
    case DType::kF32:
      return put(static_cast<float>(value));
    case DType::kF16:
      return put(F32ToF16(static_cast<float>(value)));
    case DType::kBF16:
      return put(F32ToBF16(static_cast<float>(value)));
    case DType::kI32:
      return put(int32_t{value});
    case DType::kI64:
      return put(int64_t{value});
    case DType::kU8:
      return put(static_cast<uint8_t>(value));
  }
}
int ValueOf(int rank, size_t i) { return static_cast<int>(i % 13) + 2 * rank - 3; }
std::vector<std::byte> Filled(DType dtype, size_t count, const std::function<int(size_t)>& value) {
  std::vector<std::byte> data(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) Put(dtype, data, i, value(i));
  return data;
}
std::vector<std::byte> Input(DType dtype, size_t count, int rank) {
  return Filled(dtype, count, [rank](size_t i) { return ValueOf(rank, i); });
}

class ConformanceTest : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  World Make() const { return std::get<0>(GetParam()).make(size()); }
  std::vector<size_t> Counts() const {
    if (std::string(std::get<0>(GetParam()).name) == "narrow") return {0, 1, 3, 50};
#if defined(__SANITIZE_THREAD__)
    return {0, 1, 3, 1000, 65536 / 4 + 1};  // the suite's own loops take too long with more
#else
    return {0, 1, 3, 1000, 65536 / 4 + 1, (1 << 20) / 4};
#endif
  }
};

TEST_P(ConformanceTest, AllReduceAndReduce) {
  World world = Make();
  for (const size_t count : Counts()) {
    for (const DType dtype : kTypes) {
      const auto sum = Filled(dtype, count, [this](size_t i) {
        int total = 0;
        for (int r = 0; r < size(); ++r) total += ValueOf(r, i);
        return total;
      });
      OnEveryRank(size(), [&](int r) {
        Communicator& comm = *world[r];
        const auto in = Input(dtype, count, r);
        std::vector<std::byte> out(in.size()), place = in, reduced(in.size()), at_root = in;
        const int root = size() - 1;
        auto a = comm.AllReduce(in.data(), out.data(), count, dtype, ReduceOp::kSum);
        auto b = comm.AllReduce(place.data(), place.data(), count, dtype, ReduceOp::kSum);
        auto c = comm.Reduce(in.data(), reduced.data(), count, dtype, ReduceOp::kSum, 0);
        auto d = comm.Reduce(at_root.data(), at_root.data(), count, dtype, ReduceOp::kSum, root);
        for (const auto& work : {a, b, c, d}) ASSERT_EQ(work->Wait(In(30)), OkStatus());
        EXPECT_EQ(in, Input(dtype, count, r));
        EXPECT_EQ(out, sum) << Name(dtype) << " " << count;
        EXPECT_EQ(place, sum) << Name(dtype) << " " << count;
        if (r == 0) {
          EXPECT_EQ(reduced, sum) << Name(dtype) << " " << count;
        }
        if (r == root) {
          EXPECT_EQ(at_root, sum) << Name(dtype) << " " << count;
        }
      });
    }
  }
}

TEST_P(ConformanceTest, MaxMinProd) {
  World world = Make();
  const size_t count = 1001;
  OnEveryRank(size(), [&](int r) {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd}) {
      auto data = Input(DType::kI32, count, r);
      ASSERT_EQ(world[r]->AllReduce(data.data(), data.data(), count, DType::kI32, op)->Wait(In(30)),
                OkStatus());
      EXPECT_EQ(data, Filled(DType::kI32, count, [&](size_t i) {
                  int all = ValueOf(0, i);
                  for (int k = 1; k < size(); ++k) {
                    const int v = ValueOf(k, i);
                    all = op == ReduceOp::kMax   ? std::max(all, v)
                          : op == ReduceOp::kMin ? std::min(all, v)
                                                 : static_cast<int>(static_cast<uint32_t>(all) *
                                                                    static_cast<uint32_t>(v));
                  }
                  return all;
                }));
    }
  });
}

// Values whose sum depends on the order: all ranks must have the same bits all the same, and
// Reduce those of AllReduce.
TEST_P(ConformanceTest, SameBitsOnAllRanks) {
  World world = Make();
  for (const size_t count : Counts()) {
    std::vector<std::vector<float>> all(size()), reduced(size());
    OnEveryRank(size(), [&](int r) {
      std::vector<float>& mine = all[r];
      mine.resize(count);
      for (size_t i = 0; i < count; ++i) {
        mine[i] = 1.0f / static_cast<float>(3 * i + 7 * r + 1) * (r % 2 == 0 ? 1 : -1e4f);
      }
      reduced[r] = mine;
      auto a = world[r]->AllReduce(mine.data(), mine.data(), count, DType::kF32, ReduceOp::kSum);
      auto b = world[r]->Reduce(reduced[r].data(), reduced[r].data(), count, DType::kF32,
                                ReduceOp::kSum, size() / 2);
      ASSERT_EQ(a->Wait(In(30)), OkStatus());
      ASSERT_EQ(b->Wait(In(30)), OkStatus());
    });
    for (int r = 0; r < size(); ++r) {
      EXPECT_TRUE(SameBits(all[r], all[0])) << r;
    }
    EXPECT_TRUE(SameBits(reduced[size() / 2], all[0]));
  }
}

TEST_P(ConformanceTest, BroadcastAndAllGather) {
  World world = Make();
  for (const size_t count : Counts()) {
    for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64}) {
      const auto gathered =
          Filled(dtype, count * size(), [&](size_t i) { return ValueOf(i / count, i % count); });
      OnEveryRank(size(), [&](int r) {
        for (int root = 0; root < size(); ++root) {
          auto data = Input(dtype, count, r);
          ASSERT_EQ(world[r]->Broadcast(data.data(), count, dtype, root)->Wait(In(30)), OkStatus());
          EXPECT_EQ(data, Input(dtype, count, root));
        }
        const auto in = Input(dtype, count, r);
        std::vector<std::byte> out(in.size() * size()), place(in.size() * size());
        std::byte* const own = place.data() + r * in.size();
        std::copy(in.begin(), in.end(), place.begin() + r * in.size());
        auto a = world[r]->AllGather(in.data(), out.data(), count, dtype);
        auto b = world[r]->AllGather(own, place.data(), count, dtype);
        ASSERT_EQ(a->Wait(In(30)), OkStatus());
        ASSERT_EQ(b->Wait(In(30)), OkStatus());
        EXPECT_EQ(out, gathered);
        EXPECT_EQ(place, gathered);
      });
    }
  }
}

TEST_P(ConformanceTest, BarrierWaitsForTheLast) {
  World world = Make();
  std::atomic<int> arrived{0};
  OnEveryRank(size(), [&](int r) {
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      ASSERT_EQ(world[r]->Barrier()->Wait(In(30)), OkStatus());
      EXPECT_GE(arrived.load(), round * size());
    }
  });
}

TEST_P(ConformanceTest, ManyInFlightAndCallbacks) {
  World world = Make();
  std::atomic<int> called{0};
  OnEveryRank(size(), [&](int r) {
    std::vector<std::vector<float>> data(50, std::vector<float>(17, 1.0f));
    std::vector<std::shared_ptr<Work>> works;
    for (auto& d : data) {
      works.push_back(
          world[r]->AllReduce(d.data(), d.data(), d.size(), DType::kF32, ReduceOp::kSum));
      works.back()->OnDone([&](const Status& s) { called.fetch_add(s.ok() ? 1 : 0); });
    }
    for (const auto& work : works) ASSERT_EQ(work->Wait(In(30)), OkStatus());
    for (const auto& d : data) EXPECT_THAT(d, ::testing::Each(static_cast<float>(size())));
    world[r]->Barrier()->Wait(In(30)).IgnoreError();
  });
  world.clear();  // joins the threads that call back
  EXPECT_EQ(called.load(), 50 * size());
}

TEST_P(ConformanceTest, AbortInTheMiddleNamesTheReason) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  World world = Make();
  const int culprit = size() - 1;
  OnEveryRank(size(), [&](int r) {
    if (r == culprit) {
      world[r]->Abort("out of data");
      world[r]->Abort("again");  // the first counts
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

TEST_P(ConformanceTest, ClosedInTheMiddle) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  World world = Make();
  std::latch done(size());
  OnEveryRank(size(), [&](int r) {
    std::vector<float> data(100000);
    const auto call = [&] {
      return world[r]->AllReduce(data.data(), data.data(), data.size(), DType::kF32, ReduceOp::kSum,
                                 {.what = "w"});
    };
    EXPECT_EQ(call()->Wait(In(10)), OkStatus());
    done.arrive_and_wait();
    if (r == 0) {
      world[0].reset();
      return;
    }
    const Time before = SteadyNow();
    const Status status = call()->Wait(In(10));
    EXPECT_LT(Seconds(SteadyNow() - before), 5.0);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("operation 2"));
  });
}

TEST_P(ConformanceTest, DifferentCallsAreReportedOnAllRanks) {
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
    });
  }
}

TEST_P(ConformanceTest, DeadlineNamesWhomItWaitsFor) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  World world = Make();
  OnEveryRank(size(), [&](int r) {
    if (r == 0) return;  // never calls
    const Status status = world[r]->Barrier({.what = "end", .deadline = In(0.1)})->Wait(In(10));
    EXPECT_FALSE(status.ok());
    if (size() == 2) {
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
      EXPECT_THAT(std::string(status.message()), HasSubstr("waiting for rank 0"));
    }
  });
}

TEST_P(ConformanceTest, BadArgumentsFailAlone) {
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
    EXPECT_EQ(code(comm.Barrier()), StatusCode::kOk);
  });
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceTest,
                         ::testing::Combine(::testing::ValuesIn(kBackends),
                                            ::testing::Values(1, 2, 3, 4, 5)),
                         [](const auto& info) {
                           return absl::StrFormat("%s_%d", std::get<0>(info.param).name,
                                                  std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Groups, ConformanceTest,
                         ::testing::Combine(::testing::ValuesIn(kGroups),
                                            ::testing::Values(4, 6, 8, 9)),
                         [](const auto& info) {
                           return absl::StrFormat("%s_%d", std::get<0>(info.param).name,
                                                  std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Trees, ConformanceTest,
                         ::testing::Combine(::testing::ValuesIn(kTrees), ::testing::Range(1, 10)),
                         [](const auto& info) {
                           return absl::StrFormat("%s_%d", std::get<0>(info.param).name,
                                                  std::get<1>(info.param));
                         });

float SumOfTree(int size, const std::function<float(int)>& value) {
  std::vector<float> sums;
  for (int r = 0; r < size; ++r) sums.push_back(value(r));
  while (sums.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < sums.size(); i += 2) {
      next.push_back(i + 1 < sums.size() ? sums[i] + sums[i + 1] : sums[i]);
    }
    sums = next;
  }
  return sums[0];
}

// Elements of which each order of adding makes something else.
float Awkward(int rank, size_t i) {
  return 1.0f / static_cast<float>(3 * i + 7 * static_cast<size_t>(rank) + 1) *
         (rank % 3 == 0 ? 1 : -1e3f);
}

void ExpectTree(World world, size_t count) {
  const int size = static_cast<int>(world.size());
  OnEveryRank(size, [&](int r) {
    std::vector<float> mine(count);
    for (size_t i = 0; i < count; ++i) mine[i] = Awkward(r, i);
    auto work = world[r]->AllReduce(mine.data(), mine.data(), count, DType::kF32, ReduceOp::kSum);
    ASSERT_EQ(work->Wait(In(30)), OkStatus());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(mine[i], SumOfTree(size, [&](int k) { return Awkward(k, i); }))
          << "element " << i << " of " << count << ", rank " << r << " of " << size;
    }
  });
}

TEST(TreeOrderTest, SumsOfAnySizeAreTheTrees) {
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11}) {
    for (const size_t count : {1u, 4u, 15u, 1003u}) ExpectTree(MakeTree(size), count);
  }
}

TEST(TreeOrderTest, SmallSumsAreTheTreesAnyway) {
  for (const int size : {3, 5, 6, 7}) ExpectTree(MakeInproc(size), 4);
}

}  // namespace
}  // namespace tandem
