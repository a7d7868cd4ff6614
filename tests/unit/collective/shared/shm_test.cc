// Ranks that share memory: the setup, buffers in the shared arena, and faults.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <latch>

#include "collective/shared/shared_memory.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::HasSubstr;

constexpr size_t kArenaBytes = size_t{64} << 20;

std::string Text(const Status& status) { return std::string(status.message()); }

StatusOr<std::unique_ptr<Communicator>> ConnectShm(const WorldConfig& world) {
  return Connect(world, {}, {TransportKind::kSharedMemory, kArenaBytes});
}

TEST(SharedMemoryTest, WhatCouldShrinkIsRefused) {
  const auto made = SharedMemory::Create(2, 4096);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NE(::ftruncate((*made)->fd(), 4096), 0);
  (*made)->Part(1)[0] = std::byte{7};
  const auto mapped = SharedMemory::Map(Fd(::dup((*made)->fd())), 2, 4096);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ((*mapped)->Part(1)[0], std::byte{7});
  EXPECT_FALSE(SharedMemory::Map(Fd(::dup((*made)->fd())), 2, 8192).ok());
  Fd loose(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 8192), 0);
  EXPECT_EQ(SharedMemory::Map(std::move(loose), 2, 4096).status().code(),
            StatusCode::kPermissionDenied);
}

// A rank whose memory layout differs must not join. All ranks then fail, or use TCP if shared
// memory is not required.
TEST(SharedMemoryTest, ARankThatHasNoneIsNamedOrLeadsToTcp) {
  for (const bool required : {false, true}) {
    const Door door = BindLoopbackSocket();
    OnEveryRank(3, [&](int r) {
      auto mesh = JoinWorld(TestWorld(door, r, 3));
      ASSERT_TRUE(mesh.ok()) << mesh.status();
      // Rank 2 has another layout, as if it came from another build.
      const auto got = ShareMemory(*mesh, r == 2 ? 8192 : 4096, required, In(10));
      if (required) {
        EXPECT_EQ(got.status().code(), StatusCode::kFailedPrecondition) << got.status();
        EXPECT_THAT(Text(got.status()), HasSubstr("rank 2 (127.0.0.1:"));
      } else {
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(*got, nullptr);
      }
    });
  }
}

TEST(SharedMemoryTest, ARankThatDiesMeanwhileIsNamed) {
  const Door door = BindLoopbackSocket();
  // Without this latch, rank 1 could leave too early and make the setup of the world fail.
  std::latch joined(2);
  OnEveryRank(2, [&](int r) {
    auto mesh = JoinWorld(TestWorld(door, r, 2));
    joined.arrive_and_wait();
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    if (r == 1) return;
    const auto got = ShareMemory(*mesh, 4096, false, In(10));
    EXPECT_EQ(got.status().code(), StatusCode::kUnavailable) << got.status();
    EXPECT_THAT(Text(got.status()), HasSubstr("rank 1 (127.0.0.1:"));
  });
}

// ---- The same bits as over sockets, for all locations of the buffers ----------------------------

// Fills the buffer. The sum of these values over the ranks depends on the order of addition. Some
// values are zeros with a sign.
void Fill(DType dtype, std::byte* to, size_t count, int rank) {
  for (size_t i = 0; i < count; ++i) {
    const double x = (i + static_cast<size_t>(rank)) % 7 == 0
                         ? -0.0
                         : 1e3 / static_cast<double>(3 * i + 7 * static_cast<size_t>(rank) + 1) *
                               (rank % 2 == 0 ? 1 : -1);
    const auto put = [&](auto v) { std::memcpy(to + i * sizeof(v), &v, sizeof(v)); };
    if (dtype == DType::kF32) put(static_cast<float>(x));
    if (dtype == DType::kF16) put(F32ToF16(static_cast<float>(x)));
    if (dtype == DType::kBF16) put(F32ToBF16(static_cast<float>(x)));
    if (dtype == DType::kI32) put(static_cast<int32_t>(x * 1e6));
    if (dtype == DType::kI64) put(static_cast<int64_t>(x * 1e6));
  }
}

enum class Place { kPrivate, kArena, kMixed };

// Runs every operation once. Returns the results of each rank, concatenated.
std::vector<std::byte> Everything(World& world, Place place, DType dtype, size_t count) {
  const size_t size = world.size(), bytes = count * SizeOf(dtype);
  std::vector<std::byte> all(size * bytes * (7 + 2 * size));
  OnEveryRank(static_cast<int>(size), [&](int r) {
    Communicator& comm = *world[static_cast<size_t>(r)];
    const bool arena = place == Place::kArena || (place == Place::kMixed && r % 2 == 0);
    const auto make = [&](size_t n) {
      auto made = arena ? comm.Allocate(n) : comm.Communicator::Allocate(n);
      CHECK(made.ok()) << made.status();
      return *made;
    };
    std::byte* at = all.data() + static_cast<size_t>(r) * bytes * (7 + 2 * size);
    const auto keep = [&](const Buffer& from, size_t n) { at = std::copy_n(from.get(), n, at); };
    const Buffer in = make(bytes), out = make(bytes), gathered = make(bytes * size);
    const int root = static_cast<int>(size) - 1;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      Fill(dtype, in.get(), count, r);
      ASSERT_EQ(comm.AllReduce(in.get(), out.get(), count, dtype, op)->Wait(In(30)), OkStatus());
      keep(out, bytes);
    }
    ASSERT_EQ(comm.AllGather(in.get(), gathered.get(), count, dtype)->Wait(In(30)), OkStatus());
    keep(gathered, bytes * size);
    ASSERT_EQ(comm.AllReduce(in.get(), in.get(), count, dtype, ReduceOp::kSum)->Wait(In(30)),
              OkStatus());
    keep(in, bytes);
    Fill(dtype, in.get(), count, r);
    ASSERT_EQ(comm.Reduce(in.get(), out.get(), count, dtype, ReduceOp::kSum, root)->Wait(In(30)),
              OkStatus());
    if (r == root) keep(out, bytes);
    if (r != root) at += bytes;
    ASSERT_EQ(comm.Broadcast(in.get(), count, dtype, 0)->Wait(In(30)), OkStatus());
    keep(in, bytes);
    // Each part of the input gets different data.
    for (size_t k = 0; k < size; ++k) {
      Fill(dtype, gathered.get() + k * bytes, count, r + static_cast<int>(k));
    }
    ASSERT_EQ(
        comm.ReduceScatter(gathered.get(), out.get(), count, dtype, ReduceOp::kSum)->Wait(In(30)),
        OkStatus());
    keep(out, bytes);
    ASSERT_EQ(comm.AllToAll(gathered.get(), gathered.get(), count, dtype)->Wait(In(30)),
              OkStatus());
    keep(gathered, bytes * size);
    if (size == 1) return;
    const int next = (r + 1) % static_cast<int>(size), last = (r + root) % static_cast<int>(size);
    ASSERT_EQ(comm.SendRecv(gathered.get(), next, out.get(), last, count, dtype)->Wait(In(30)),
              OkStatus());
    keep(out, bytes);
  });
  return all;
}

class PlacesTest : public ::testing::TestWithParam<int> {};

TEST_P(PlacesTest, TheBitsOfTcpWhereverBuffersAre) {
  const int size = GetParam();
  World tcp = MakeTcpWorld(size), shm = MakeShmWorld(size);
  EXPECT_EQ(shm[0]->name(), size == 1 ? "tcp" : "shm");
  for (const size_t count : {0, 1, 3, 1000, 5000, 65537, 200001}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64}) {
      if (count > 70000 && dtype != DType::kF32) continue;
      const auto want = Everything(tcp, Place::kPrivate, dtype, count);
      for (const Place place : {Place::kPrivate, Place::kArena, Place::kMixed}) {
        EXPECT_TRUE(Everything(shm, place, dtype, count) == want)
            << Name(dtype) << " " << count << " " << static_cast<int>(place);
      }
    }
  }
}

TEST(ShmTest, TreesHaveTheBitsOfTcpToo) {
  HostCommunicatorConfig config;
  config.rule.tree_order = true;
  for (const int size : {2, 4, 8}) {
    World tcp = MakeTcpWorld(size, config), shm = MakeShmWorld(size, config);
    for (const size_t count : {3, 1003, 70001}) {
      const auto want = Everything(tcp, Place::kPrivate, DType::kF32, count);
      for (const Place place : {Place::kPrivate, Place::kArena}) {
        EXPECT_TRUE(Everything(shm, place, DType::kF32, count) == want) << size << " " << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlacesTest, ::testing::Values(1, 2, 3, 4, 9));

// ---- Calls on the caller's thread ---------------------------------------------------------------

TEST(ShmTest, CallsAndStartsKeepTheirOrder) {
  World world = MakeShmWorld(2);
  OnEveryRank(2, [&](int r) {
    Communicator& comm = *world[static_cast<size_t>(r)];
    float a = 1, b = 10;
    for (int round = 0; round < 200; ++round) {
      a = b = 1;
      Collective call;
      call.op = CollectiveOp::kAllReduce;
      call.in = call.out = &a;
      call.count = 1;
      auto started =
          round % 2 == 0 ? comm.AllReduce(&b, &b, 1, DType::kF32, ReduceOp::kSum) : comm.Barrier();
      ASSERT_EQ(comm.Call(call), OkStatus());
      ASSERT_EQ(started->Wait(In(30)), OkStatus());
      EXPECT_EQ(a, 2);
      EXPECT_EQ(b, round % 2 == 0 ? 2 : 1);
    }
  });
}

// ---- Faults of a rank ---------------------------------------------------------------------------

// The process of a rank ends while the other ranks access its memory or wait for it.
TEST(ShmTest, DeadRankIsNamedByAll) {
  for (const bool idle : {false, true}) {
    const Door door = BindLoopbackSocket();
    const int size = 4, victim = 2;
    std::latch ready(size);
    OnEveryRank(size, [&](int r) {
      if (r == victim) {
        auto mesh = JoinWorld(TestWorld(door, r, size));
        ASSERT_TRUE(mesh.ok()) << mesh.status();
        const auto memory =
            ShareMemory(*mesh, ShmCollectives::PartBytes(kArenaBytes, size), true, In(20));
        ASSERT_TRUE(memory.ok()) << memory.status();
        ready.arrive_and_wait();
        return;  // the return closes all connections of this rank
      }
      auto comm = ConnectShm(TestWorld(door, r, size));
      ASSERT_TRUE(comm.ok()) << comm.status();
      const auto data = (*comm)->Allocate(400000);
      ASSERT_TRUE(data.ok()) << data.status();
      const auto start = [&] {
        return (*comm)->AllReduce(data->get(), data->get(), 100000, DType::kF32, ReduceOp::kSum,
                                  {.what = "fc_0.w_0@GRAD"});
      };
      std::shared_ptr<Work> work;
      if (!idle) work = start();
      ready.arrive_and_wait();
      if (idle) work = start();
      const Status status = work->Wait(In(20));
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
      EXPECT_THAT(Text(status), HasSubstr("rank 2 (127.0.0.1:"));
      EXPECT_THAT(Text(status), HasSubstr("is lost"));
      EXPECT_THAT(Text(status),
                  HasSubstr("AllReduce(sum, f32[100000]) of \"fc_0.w_0@GRAD\", operation 1"));
    });
  }
}

TEST(ShmTest, SilentRankIsNamedAtTheDeadline) {
  const Door door = BindLoopbackSocket();
  std::latch done(2);
  OnEveryRank(2, [&](int r) {
    auto comm = ConnectShm(TestWorld(door, r, 2));
    ASSERT_TRUE(comm.ok()) << comm.status();
    std::vector<float> data(1 << 20);
    if (r == 0) {
      const Status status = (*comm)
                                ->AllReduce(data.data(), data.data(), data.size(), DType::kF32,
                                            ReduceOp::kSum, {.what = "w", .deadline = In(0.2)})
                                ->Wait(In(10));
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
      EXPECT_THAT(Text(status), testing::AllOf(HasSubstr("timed out, because this peer"),
                                               HasSubstr("rank 1 (127.0.0.1:")));
    }
    done.arrive_and_wait();
    if (r == 1) {
      // The late rank makes the same call as rank 0, because a different call would cause another
      // error.
      const Status late = (*comm)
                              ->AllReduce(data.data(), data.data(), data.size(), DType::kF32,
                                          ReduceOp::kSum, {.what = "w"})
                              ->Wait(In(20));
      EXPECT_THAT(Text(late), HasSubstr("rank 0 (127.0.0.1:"));
      EXPECT_THAT(Text(late),
                  testing::AllOf(HasSubstr("timed out, because this peer"), HasSubstr("rank 1")));
    }
  });
}

// A faulty peer sends stray bytes on its connection, or announces a buffer outside its part of the
// shared memory.
TEST(ShmTest, GarbageIsNamed) {
  for (const bool posted : {false, true}) {
    const Door door = BindLoopbackSocket();
    std::latch failed(1);
    OnEveryRank(2, [&](int r) {
      if (r == 1) {
        auto mesh = JoinWorld(TestWorld(door, r, 2));
        ASSERT_TRUE(mesh.ok()) << mesh.status();
        const auto memory =
            ShareMemory(*mesh, ShmCollectives::PartBytes(kArenaBytes, 2), true, In(20));
        ASSERT_TRUE(memory.ok()) << memory.status();
        if (posted) {
          auto* theirs = reinterpret_cast<ShmRankBlock*>((*memory)->Part(0).data());
          auto* mine = reinterpret_cast<ShmRankBlock*>((*memory)->Part(1).data());
          ASSERT_TRUE([&] {
            for (const Time end = In(20); SteadyNow() < end; std::this_thread::yield()) {
              if (theirs->phase.load() == 1) return true;
            }
            return false;
          }());
          mine->postings[1].header = theirs->postings[1].header;
          // The buffer begins 99 bytes before the end of the arena and ends after the arena.
          mine->postings[1].in = mine->postings[1].out = kArenaBytes - 99;
          mine->phase.store(1);
          // Wakes the other rank if it sleeps, as EndPhase of shm_collectives.cc does.
          const std::byte bell{0x5b};
          ASSERT_EQ(mesh->data[0].TrySend({}, {&bell, 1}).bytes, 1u);
        } else {
          const std::string text(100, 'x');
          ASSERT_EQ(::write(mesh->data[0].fd(), text.data(), text.size()), 100);
        }
        failed.wait();
        return;
      }
      auto comm = ConnectShm(TestWorld(door, r, 2));
      ASSERT_TRUE(comm.ok()) << comm.status();
      const auto data = (*comm)->Allocate(100000);
      const Status status =
          (*comm)
              ->AllReduce(data->get(), data->get(), 25000, DType::kF32, ReduceOp::kSum)
              ->Wait(In(20));
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
      EXPECT_THAT(Text(status), HasSubstr("rank 1 (127.0.0.1:"));
      failed.count_down();
    });
  }
}

}  // namespace
}  // namespace tandem::collective
