// A test suite for all communicators. The suite varies the number of ranks, the sizes, the element
// types, and whether an operation is in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <latch>

#include "tests/unit/collective/backends.h"

namespace tandem::collective {
namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>,
                            std::bit_cast<uint32_t, float>);
}

const DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64};

// Stores a small integer, which every element type represents exactly in any order of addition.
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
constexpr size_t kPeriod = 13;
int ValueOf(int rank, size_t i) { return static_cast<int>(i % kPeriod) + 2 * rank - 3; }
// Returns elements with value(0), value(1), ..., value(12), value(0), ...: all sums and products of
// the inputs have the period of ValueOf. The function makes one period and copies it, which is
// faster than a call of `value` for each element.
std::vector<std::byte> Filled(DType dtype, size_t count, const std::function<int(size_t)>& value) {
  std::vector<std::byte> data(count * SizeOf(dtype));
  const size_t made = std::min(count, kPeriod);
  for (size_t i = 0; i < made; ++i) Put(dtype, data, i, value(i));
  for (size_t have = made * SizeOf(dtype); have < data.size(); have *= 2) {
    std::memcpy(data.data() + have, data.data(), std::min(have, data.size() - have));
  }
  return data;
}
std::vector<std::byte> Input(DType dtype, size_t count, int rank) {
  return Filled(dtype, count, [rank](size_t i) { return ValueOf(rank, i); });
}

class SumsAndCopiesTest : public ConformanceTest {
 protected:
  std::vector<size_t> Counts() const {
    if (backend() == "narrow") return {0, 1, 3, 50};
#if defined(__SANITIZE_THREAD__)
    // With more elements, the loops of this suite take too long under the thread sanitizer.
    return {0, 1, 3, 1000, 65536 / 4 + 1};
#else
    return {0, 1, 3, 1000, 65536 / 4 + 1, (1 << 20) / 4};
#endif
  }
};

TEST_P(SumsAndCopiesTest, AllReduceAndReduce) {
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

TEST_P(SumsAndCopiesTest, MaxMinProd) {
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

// The bits of the sum depend on the order of addition. All ranks must nevertheless have the same
// bits, and Reduce must have the bits of AllReduce.
TEST_P(SumsAndCopiesTest, SameBitsOnAllRanks) {
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

TEST_P(SumsAndCopiesTest, BroadcastAndAllGather) {
  World world = Make();
  for (const size_t count : Counts()) {
    for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64}) {
      std::vector<std::byte> gathered;
      for (int r = 0; r < size(); ++r) {
        const auto theirs = Input(dtype, count, r);
        gathered.insert(gathered.end(), theirs.begin(), theirs.end());
      }
      OnEveryRank(size(), [&](int r) {
        for (int root = 0; root < size(); ++root) {
          auto data = Input(dtype, count, r);
          ASSERT_EQ(world[r]->Broadcast(data.data(), count, dtype, root)->Wait(In(30)), OkStatus());
          EXPECT_EQ(data, Input(dtype, count, root));
        }
        const auto in = Input(dtype, count, r);
        std::vector<std::byte> out(in.size() * size()), place(in.size() * size());
        std::byte* const own = place.data() + r * in.size();
        std::copy(in.begin(), in.end(), place.begin() + static_cast<ptrdiff_t>(r * in.size()));
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

// Returns f32 values whose sum depends on the order of addition. For other element types returns
// small integers.
std::vector<std::byte> Uneven(DType dtype, size_t count, int rank) {
  auto data = Input(dtype, count, rank);
  for (size_t i = 0; i < count && dtype == DType::kF32; ++i) {
    const float value = 1.0f / static_cast<float>(3 * i + 7 * static_cast<size_t>(rank) + 1) *
                        (rank % 2 == 0 ? 1 : -1e4f);
    std::memcpy(data.data() + i * sizeof(value), &value, sizeof(value));
  }
  return data;
}

// Returns part `index` of `size` equal parts of `all`.
std::vector<std::byte> PartOf(const std::vector<std::byte>& all, int index, int size) {
  const size_t bytes = all.size() / static_cast<size_t>(size);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index * bytes);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

TEST_P(SumsAndCopiesTest, ReduceScatterHasTheBitsOfAllReduce) {
  World world = Make();
  for (const size_t count : Counts()) {
    const size_t part = (count + 2) / 3;
    for (const DType dtype : kTypes) {
      if (count > 70000 && dtype != DType::kF32) continue;
      OnEveryRank(size(), [&](int r) {
        Communicator& comm = *world[r];
        const auto in = Uneven(dtype, part * size(), r);
        std::vector<std::byte> sum(in.size()), out(in.size() / size()), place = in;
        std::byte* const own = place.data() + r * out.size();
        auto a = comm.AllReduce(in.data(), sum.data(), part * size(), dtype, ReduceOp::kSum);
        auto b = comm.ReduceScatter(in.data(), out.data(), part, dtype, ReduceOp::kSum);
        auto c = comm.ReduceScatter(place.data(), own, part, dtype, ReduceOp::kSum);
        for (const auto& work : {a, b, c}) ASSERT_EQ(work->Wait(In(30)), OkStatus());
        EXPECT_EQ(in, Uneven(dtype, part * size(), r));
        EXPECT_EQ(out, PartOf(sum, r, size())) << Name(dtype) << " " << part;
        EXPECT_EQ(PartOf(place, r, size()), out) << Name(dtype) << " " << part;
        const auto total = [&](size_t i) {
          int all = 0;
          for (int k = 0; k < size(); ++k) all += ValueOf(k, i);
          return all;
        };
        if (dtype != DType::kF32) {
          EXPECT_EQ(sum, Filled(dtype, part * size(), total));
        }
      });
    }
  }
}

TEST_P(SumsAndCopiesTest, AllToAll) {
  World world = Make();
  for (const size_t count : Counts()) {
    const size_t part = (count + 2) / 3;
    for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64}) {
      if (count > 70000 && dtype != DType::kF32) continue;
      OnEveryRank(size(), [&](int r) {
        const auto in = Input(dtype, part * size(), r);
        std::vector<std::byte> out(in.size()), place = in, want;
        for (int k = 0; k < size(); ++k) {
          const auto theirs = PartOf(Input(dtype, part * size(), k), r, size());
          want.insert(want.end(), theirs.begin(), theirs.end());
        }
        auto a = world[r]->AllToAll(in.data(), out.data(), part, dtype);
        auto b = world[r]->AllToAll(place.data(), place.data(), part, dtype);
        ASSERT_EQ(a->Wait(In(30)), OkStatus());
        ASSERT_EQ(b->Wait(In(30)), OkStatus());
        EXPECT_EQ(in, Input(dtype, part * size(), r));
        EXPECT_EQ(out, want) << Name(dtype) << " " << part;
        EXPECT_EQ(place, want) << Name(dtype) << " " << part;
      });
    }
  }
}

// Sends messages around the ring, exchanges messages in place between partners, and sends messages
// along the line of ranks, with collectives in between.
TEST_P(SumsAndCopiesTest, Messages) {
  if (size() == 1) GTEST_SKIP() << "nobody to send to";
  World world = Make();
  for (const size_t count : Counts()) {
    for (const DType dtype : {DType::kU8, DType::kF16, DType::kI64}) {
      OnEveryRank(size(), [&](int r) {
        Communicator& comm = *world[r];
        const int next = (r + 1) % size(), last = (r + size() - 1) % size();
        const auto in = Input(dtype, count, r);
        std::vector<std::byte> around(in.size()), pair = in, line = in;
        std::vector<std::shared_ptr<Work>> works;
        works.push_back(comm.SendRecv(in.data(), next, around.data(), last, count, dtype));
        if ((r ^ 1) < size()) {
          works.push_back(comm.SendRecv(pair.data(), r ^ 1, pair.data(), r ^ 1, count, dtype));
        }
        works.push_back(comm.Barrier());
        if (r > 0) works.push_back(comm.Recv(line.data(), count, dtype, last));
        if (next > 0) works.push_back(comm.Send(line.data(), count, dtype, next));
        for (const auto& work : works) ASSERT_EQ(work->Wait(In(30)), OkStatus());
        EXPECT_EQ(in, Input(dtype, count, r));
        EXPECT_EQ(around, Input(dtype, count, last)) << Name(dtype) << " " << count;
        EXPECT_EQ(pair, Input(dtype, count, (r ^ 1) < size() ? r ^ 1 : r));
        EXPECT_EQ(line, Input(dtype, count, 0)) << Name(dtype) << " " << count;
      });
    }
  }
}

// The buffer is much larger than caches and pipes. The test uses one element type, because all
// types share the code for transfers.
TEST_P(SumsAndCopiesTest, SixteenMegabytes) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the test's own loops take too long";
#endif
  if (backend() == "narrow") GTEST_SKIP() << "thirteen bytes a pipe";
  World world = Make();
  const size_t part = (4 << 20) / size(), count = part * size();
  OnEveryRank(size(), [&](int r) {
    Communicator& comm = *world[r];
    std::vector<int32_t> data(count), got(count), own(part);
    const auto fill = [&] {
      for (size_t i = 0; i < count; ++i) data[i] = static_cast<int32_t>(i) * (r + 1);
    };
    const int32_t ranks = size() * (size() + 1) / 2;
    const auto is = [&](const std::vector<int32_t>& values, size_t first, auto factor) {
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t at = first + i;
        if (values[i] != static_cast<int32_t>(at) * factor(at)) return false;
      }
      return true;
    };
    const auto summed = [&](size_t) { return ranks; };
    const size_t begin = part * r;
    fill();
    ASSERT_EQ(comm.ReduceScatter(data.data(), own.data(), part, DType::kI32, ReduceOp::kSum)
                  ->Wait(In(60)),
              OkStatus());
    EXPECT_TRUE(is(own, begin, summed));
    ASSERT_EQ(comm.AllGather(own.data(), got.data(), part, DType::kI32)->Wait(In(60)), OkStatus());
    EXPECT_TRUE(is(got, 0, summed));
    ASSERT_EQ(
        comm.AllReduce(data.data(), data.data(), count, DType::kI32, ReduceOp::kSum)->Wait(In(60)),
        OkStatus());
    EXPECT_EQ(data, got);
    for (size_t i = 0; i < count; ++i) data[i] = static_cast<int32_t>(begin + i % part) * (r + 1);
    ASSERT_EQ(comm.AllToAll(data.data(), data.data(), part, DType::kI32)->Wait(In(60)), OkStatus());
    EXPECT_TRUE(is(data, 0, [&](size_t at) { return static_cast<int32_t>(at / part) + 1; }));
    if (size() == 1) return;
    fill();
    const int next = (r + 1) % size(), last = (r + size() - 1) % size();
    ASSERT_EQ(comm.SendRecv(data.data(), next, data.data(), last, count, DType::kI32)->Wait(In(60)),
              OkStatus());
    EXPECT_TRUE(is(data, 0, [&](size_t) { return last + 1; }));
  });
}

TEST_P(SumsAndCopiesTest, BarrierWaitsForTheLast) {
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

TEST_P(SumsAndCopiesTest, ManyInFlightAndCallbacks) {
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
  world.clear();  // destroys the communicators, which join the threads of the callbacks
  EXPECT_EQ(called.load(), 50 * size());
}

// Varies the group size, including 1 and the size of the world. The root of each group gets the sum
// over all ranks, with the same bits as the other roots. After that, each root broadcasts the sum
// to its group.
TEST_P(SumsAndCopiesTest, ToAndFromTheRootOfEachGroup) {
  World world = Make();
  for (int group = 1; group <= size(); ++group) {
    if (size() % group != 0) continue;
    for (const size_t count : Counts()) {
      const int root = group / 2;
      std::vector<std::vector<float>> all(size());
      const auto sum = Filled(DType::kI32, count, [this](size_t i) {
        int total = 0;
        for (int r = 0; r < size(); ++r) total += ValueOf(r, i);
        return total;
      });
      OnEveryRank(size(), [&](int r) {
        auto whole = Input(DType::kI32, count, r), out = whole;
        all[r].assign(count, 1.0f / static_cast<float>(3 * r + 1));
        Collective call = {.op = CollectiveOp::kReduce,
                           .in = whole.data(),
                           .out = out.data(),
                           .count = count,
                           .dtype = DType::kI32,
                           .root = root,
                           .group = group,
                           .what = "to roots"};
        ASSERT_EQ(world[r]->Start(call)->Wait(In(30)), OkStatus());
        EXPECT_EQ(whole, Input(DType::kI32, count, r));
        if (r % group == root) {
          EXPECT_EQ(out, sum) << group << " " << count;
        }
        call.in = call.out = all[r].data();
        call.dtype = DType::kF32;
        ASSERT_EQ(world[r]->Start(call)->Wait(In(30)), OkStatus());
        call.op = CollectiveOp::kBroadcast;
        ASSERT_EQ(world[r]->Start(call)->Wait(In(30)), OkStatus());
      });
      for (int r = 0; r < size(); ++r) EXPECT_TRUE(SameBits(all[r], all[0])) << group << " " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SumsAndCopiesTest, ::testing::ValuesIn(AllBackends()), NameOf);
INSTANTIATE_TEST_SUITE_P(Groups, SumsAndCopiesTest, ::testing::ValuesIn(GroupedBackends()), NameOf);
INSTANTIATE_TEST_SUITE_P(Trees, SumsAndCopiesTest, ::testing::ValuesIn(TreeBackends()), NameOf);

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

// Returns an element for which each order of addition gives a different sum.
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
}  // namespace tandem::collective
