// Schedules, the reductions and message headers, without any communicator.
#include "collective/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "collective/hierarchy.h"
#include "collective/message.h"
#include "collective/reduce.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(RingTest, ChunksCoverEverythingOnce) {
  for (const int size : {1, 2, 3, 5, 9}) {
    for (const size_t count : {0u, 1u, 3u, 4u, 1000u}) {
      size_t at = 0;
      for (int c = 0; c < size; ++c) {
        const Range range = RingChunk(count, 4, size, c);
        EXPECT_EQ(range.begin, at);
        EXPECT_LE(range.size(), 4 * (count / size + 1));
        at = range.end;
      }
      EXPECT_EQ(at, 4 * count);
    }
  }
}

TEST(RingTest, SendsTheLowerBound) {
  const int size = 5;
  const size_t count = 1000, bytes = count * 4;
  for (int rank = 0; rank < size; ++rank) {
    size_t sent = 0;
    for (const Step& step : RingAllReduce(rank, size, count, 4)) sent += step.send.size();
    EXPECT_EQ(sent, 2 * bytes * (size - 1) / size);
  }
}

// Every send has its receive, in the same order, on the rank it is for.
TEST(RingTest, SendsAndReceivesPairUp) {
  const auto check = [](int size, const std::function<Schedule(int)>& make) {
    for (int from = 0; from < size; ++from) {
      for (int to = 0; to < size; ++to) {
        std::vector<std::pair<size_t, size_t>> sends, recvs;
        for (const Step& s : make(from)) {
          if (s.send_to == to) sends.emplace_back(s.send.begin, s.send.end);
        }
        for (const Step& s : make(to)) {
          if (s.recv_from == from) recvs.emplace_back(s.recv.begin, s.recv.end);
        }
        EXPECT_EQ(sends, recvs) << "from " << from << " to " << to << " of " << size;
      }
    }
  };
  for (int n = 1; n <= 17; ++n) {
    check(n, [&](int r) { return HalvingDoublingAllReduce(r, n, 101, 4); });
    check(n, [&](int r) { return HalvingReduce(r, n, n / 2, 101, 4); });
    check(n, [&](int r) { return HalvingReduce(r, n, n - 1, 11, 4); });
  }
  for (const int n : {1, 2, 3, 4, 7}) {
    check(n, [&](int r) { return RingAllReduce(r, n, 11, 4); });
    check(n, [&](int r) { return RingAllGather(r, n, 12); });
    for (const HierarchyForm form : {HierarchyForm::kLeaders, HierarchyForm::kShards}) {
      check(n * 2, [&](int r) { return HierarchicalAllReduce(form, r, n * 2, 2, 11, 4); });
      check(n * 3, [&](int r) { return HierarchicalAllReduce(form, r, n * 3, 3, 11, 4); });
    }
    check(n, [&](int r) { return DirectAllGather(r, n, 12); });
    check(n, [&](int r) { return DisseminationBarrier(r, n); });
    for (int root = 0; root < n; ++root) {
      check(n, [&](int r) { return RingReduce(r, n, root, 11, 4); });
      check(n, [&](int r) { return ChainBroadcast(r, n, root, 12); });
      check(n, [&](int r) { return DirectGather(r, n, root, 12); });
      check(n, [&](int r) { return DirectBroadcast(r, n, root, 12); });
    }
  }
}

// With a power of two the lower bound leaves each rank; else at most all bytes twice.
TEST(HalvingTest, BytesOfEachRank) {
  const size_t count = 6720, bytes = count * 4;
  for (int size = 1; size <= 17; ++size) {
    const bool power = (size & (size - 1)) == 0;
    for (int rank = 0; rank < size; ++rank) {
      size_t sent = 0;
      for (const Step& step : HalvingDoublingAllReduce(rank, size, count, 4)) {
        sent += step.send.size();
      }
      const size_t least = 2 * bytes * static_cast<size_t>(size - 1) / static_cast<size_t>(size);
      if (power) {
        EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(least), 64) << size;
      } else {
        EXPECT_LE(sent, 2 * bytes + 64) << rank << " of " << size;
      }
    }
  }
}

// Bytes that leave a group of `group` ranks, and how many ranks send them.
struct Crossing {
  size_t bytes = 0;
  int ranks = 0;
};
Crossing CrossingOf(int size, int group, const std::function<Schedule(int)>& make) {
  Crossing crossing;
  for (int rank = 0; rank < size; ++rank) {
    size_t bytes = 0;
    for (const Step& step : make(rank)) {
      if (step.send_to >= 0 && step.send_to / group != rank / group) bytes += step.send.size();
    }
    crossing.bytes += bytes;
    crossing.ranks += bytes > 0 ? 1 : 0;
  }
  return crossing;
}

// What hierarchy is for: fewer bytes between the groups, carried by one rank or by all.
TEST(HierarchyTest, BytesBetweenGroups) {
  constexpr size_t kCount = 4800, kBytes = kCount * 4;
  for (const auto& [groups, group] : {std::pair{2, 4}, {4, 2}, {3, 8}, {8, 8}}) {
    const int size = groups * group;
    const auto by = [&, g = group](HierarchyForm form) {
      return CrossingOf(size, g,
                        [&](int r) { return HierarchicalAllReduce(form, r, size, g, kCount, 4); });
    };
    const Crossing flat =
        CrossingOf(size, group, [&](int r) { return RingAllReduce(r, size, kCount, 4); });
    const Crossing leaders = by(HierarchyForm::kLeaders), shards = by(HierarchyForm::kShards);
    EXPECT_EQ(leaders.bytes, 2 * kBytes * static_cast<size_t>(groups - 1));
    EXPECT_EQ(shards.bytes, leaders.bytes);
    EXPECT_EQ(flat.bytes, 2 * kBytes * static_cast<size_t>(groups * (size - 1) / size) +
                              2 * kBytes * static_cast<size_t>(groups * (size - 1) % size) /
                                  static_cast<size_t>(size));
    EXPECT_GT(flat.bytes, leaders.bytes);
    EXPECT_EQ(leaders.ranks, groups);
    EXPECT_EQ(shards.ranks, size);
  }
}

TEST(HierarchyTest, GroupsAreDescribed) {
  EXPECT_EQ(DescribeGroups(4, 2), "groups [0..1] [2..3]; leaders 0 2");
  EXPECT_EQ(DescribeGroups(6, 1),
            "groups [0..0] [1..1] [2..2] [3..3] (1 more) [5..5]; "
            "leaders 0 1 2 3 ... 5");
}

TEST(ReduceTest, MatchesScalarsForEveryType) {
  const size_t n = 37;  // not a multiple of any vector
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd}) {
    const auto expect = [op](auto a, auto b) -> decltype(a) {
      switch (op) {
        case ReduceOp::kSum:
          return a + b;
        case ReduceOp::kMax:
          return a > b ? a : b;
        case ReduceOp::kMin:
          return a < b ? a : b;
        case ReduceOp::kProd:
          return a * b;
      }
      return a;
    };
    std::vector<float> f(n), g(n);
    std::vector<int32_t> i(n), j(n);
    std::vector<int64_t> k(n), l(n);
    std::vector<uint16_t> h(n), p(n), b(n), q(n);
    for (size_t x = 0; x < n; ++x) {
      f[x] = 0.37f * static_cast<float>(x) - 5;
      g[x] = 3 - 0.11f * static_cast<float>(x);
      i[x] = static_cast<int32_t>(x) - 5;
      j[x] = 7 - static_cast<int32_t>(x);
      k[x] = (int64_t{1} << 33) + i[x];
      l[x] = j[x];
      h[x] = F32ToF16(f[x]);
      p[x] = F32ToF16(g[x]);
      b[x] = F32ToBF16(f[x]);
      q[x] = F32ToBF16(g[x]);
    }
    auto f1 = f;
    auto i1 = i;
    auto k1 = k;
    auto h1 = h, b1 = b;
    ReduceInto(op, DType::kF32, f1.data(), g.data(), n, true);
    ReduceInto(op, DType::kI32, i1.data(), j.data(), n, true);
    ReduceInto(op, DType::kI64, k1.data(), l.data(), n, false);
    ReduceInto(op, DType::kF16, h1.data(), p.data(), n, true);
    ReduceInto(op, DType::kBF16, b1.data(), q.data(), n, false);
    for (size_t x = 0; x < n; ++x) {
      EXPECT_EQ(f1[x], expect(f[x], g[x]));
      EXPECT_EQ(i1[x], expect(i[x], j[x]));
      EXPECT_EQ(k1[x], expect(k[x], l[x]));
      EXPECT_EQ(h1[x], F32ToF16(expect(F16ToF32(h[x]), F16ToF32(p[x]))));
      EXPECT_EQ(b1[x], F32ToBF16(expect(BF16ToF32(b[x]), BF16ToF32(q[x]))));
    }
  }
}

TEST(ReduceTest, NotANumberWinsAndOverflowWraps) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool acc_first : {true, false}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      std::vector<float> acc = {nan, 1, 2}, in = {1, nan, 3};
      ReduceInto(op, DType::kF32, acc.data(), in.data(), 3, acc_first);
      EXPECT_TRUE(std::isnan(acc[0]) && std::isnan(acc[1]) && !std::isnan(acc[2]));
      for (const DType dtype : {DType::kF16, DType::kBF16}) {
        const bool half = dtype == DType::kF16;
        const auto bits = [&](float v) { return half ? F32ToF16(v) : F32ToBF16(v); };
        std::vector<uint16_t> a(9, bits(nan)), b(9, bits(1));
        ReduceInto(op, dtype, a.data(), b.data(), 9, acc_first);
        for (const uint16_t v : a) EXPECT_TRUE(std::isnan(half ? F16ToF32(v) : BF16ToF32(v)));
      }
    }
    int32_t big = std::numeric_limits<int32_t>::max(), one = 1;
    ReduceInto(ReduceOp::kSum, DType::kI32, &big, &one, 1, acc_first);
    EXPECT_EQ(big, std::numeric_limits<int32_t>::min());
  }
}

TEST(MessageTest, DifferencesAreNamedOnBothSides) {
  Collective a;
  a.op = CollectiveOp::kAllReduce;
  a.count = 10;
  a.what = "fc_0.w_0@GRAD";
  Collective b = a;
  b.op = CollectiveOp::kBroadcast;
  b.count = 11;
  b.what = std::string(100, 'y');
  const MessageHeader mine = MakeHeader(a, 1, 5), theirs = MakeHeader(b, 1, 6);
  EXPECT_TRUE(CheckHeader(mine, mine, "rank 1").ok());
  const Status status = CheckHeader(theirs, mine, "rank 1 (host:1)");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  for (const char* part :
       {"rank 1 (host:1) runs Broadcast(f32[11], root 0) of \"yyyy", "as operation 6",
        "this rank runs AllReduce(sum, f32[10]) of "
        "\"fc_0.w_0@GRAD\" as operation 5"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  MessageHeader garbage;
  std::memset(static_cast<void*>(&garbage), 0x5a, sizeof(garbage));
  EXPECT_EQ(CheckHeader(garbage, mine, "rank 1").code(), StatusCode::kDataLoss);
  EXPECT_EQ(CheckHeader(MakeHeader(a, 2, 5), mine, "rank 1").code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tandem
