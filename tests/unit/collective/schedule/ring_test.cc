// Tests schedules and message headers without a communicator.
#include "collective/schedule/ring.h"
#include "collective/schedule/halving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "collective/schedule/hierarchy.h"
#include "collective/transport/message.h"

namespace tandem::collective {
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

// A reduce-scatter and an all-gather send equally many bytes, and together as many bytes as an
// allreduce. Each of them sends the minimum number of bytes.
TEST(RingTest, HalvesOfAnAllReduce) {
  const int size = 5;
  const size_t count = 1000, part = count * 4 / size;
  const auto sent = [](const Schedule& schedule) {
    size_t bytes = 0;
    for (const Step& step : schedule) bytes += step.send.size();
    return bytes;
  };
  for (int rank = 0; rank < size; ++rank) {
    const Schedule scatter = RingReduceScatter(rank, size, count, 4);
    const Range own = RingChunk(count, 4, size, rank);
    EXPECT_EQ(scatter.back().recv.begin, own.begin);
    EXPECT_EQ(scatter.back().recv.end, own.end);
    EXPECT_EQ(RingAllGather(rank, size, count, 4).front().send.begin, own.begin);
    EXPECT_EQ(sent(scatter), part * (size - 1));
    EXPECT_EQ(sent(RingAllGather(rank, size, count, 4)), part * (size - 1));
    EXPECT_EQ(sent(PairwiseAllToAll(rank, size, part)), part * (size - 1));
  }
}

// Every send has a matching receive on the target rank. The receives are in the order of the sends.
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
    check(n, [&](int r) { return RingAllGather(r, n, 12, 4); });
    check(n, [&](int r) { return RingReduceScatter(r, n, 11, 4); });
    for (const HierarchyForm form : {HierarchyForm::kLeaders, HierarchyForm::kShards}) {
      if (n == 1) continue;  // a hierarchy has at least two groups
      check(n * 2, [&](int r) { return HierarchicalAllReduce(form, r, n * 2, 2, 11, 4); });
      check(n * 3, [&](int r) { return HierarchicalAllReduce(form, r, n * 3, 3, 11, 4); });
      check(n * 3, [&](int r) { return HierarchicalReduceScatter(form, r, n * 3, 3, n * 6, 4); });
    }
    for (const int group : {1, 2, 3}) {
      const int size = n * group;
      for (const bool tree : {false, true}) {
        check(size, [&](int r) { return ReduceToGroups(tree, r, size, group, group - 1, 11, 4); });
      }
      check(size, [&](int r) { return BroadcastInGroups(r, group, group / 2, 12); });
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

// Each pair of ranks exchanges one message per direction. Part `to` of the sender becomes part
// `from` of the receiver, in the same schedule step on both ranks.
TEST(RingTest, AllToAllTransposes) {
  for (int n = 1; n <= 9; ++n) {
    for (int from = 0; from < n; ++from) {
      const Schedule mine = PairwiseAllToAll(from, n, 12);
      EXPECT_EQ(mine.size(), static_cast<size_t>(n - 1));
      for (const Step& step : mine) {
        EXPECT_EQ(step.send_to, step.recv_from);
        EXPECT_EQ(step.send.begin, 12u * static_cast<size_t>(step.send_to));
        EXPECT_EQ(step.recv.begin, step.send.begin);
        EXPECT_EQ(step.recv.size(), 12u);
        const Schedule theirs = PairwiseAllToAll(step.send_to, n, 12);
        EXPECT_EQ(std::ranges::count(theirs, from, &Step::send_to), 1);
      }
    }
  }
}

// Each rank sends the minimum number of bytes if the number of ranks is a power of two. Otherwise
// each rank sends at most twice the size of the buffer.
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

// The bytes that leave all groups of `group` ranks, and the number of ranks that send these bytes.
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

// A hierarchy sends fewer bytes between the groups than a ring. With leaders, one rank of each
// group sends these bytes; with shards, all ranks send them.
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

// Only the roots send bytes between groups: as many bytes as an allreduce among the roots needs.
TEST(HierarchyTest, RootsAloneSendToOtherGroups) {
  constexpr size_t kCount = 4800;
  for (const bool tree : {false, true}) {
    const Crossing crossing =
        CrossingOf(8, 2, [&](int r) { return ReduceToGroups(tree, r, 8, 2, 1, kCount, 4); });
    EXPECT_EQ(crossing.bytes, 2 * 3 * kCount * 4);
    EXPECT_EQ(crossing.ranks, 4);
  }
  EXPECT_EQ(CrossingOf(8, 2, [](int r) { return BroadcastInGroups(r, 2, 1, kCount); }).bytes, 0u);
}

TEST(HierarchyTest, GroupsAreDescribed) {
  EXPECT_EQ(DescribeGroups(4, 2), "groups [0..1] [2..3]; leaders 0 2");
  EXPECT_EQ(DescribeGroups(6, 1),
            "groups [0..0] [1..1] [2..2] [3..3] (1 more) [5..5]; "
            "leaders 0 1 2 3 ... 5");
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
}  // namespace tandem::collective
