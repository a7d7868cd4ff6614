// Communicators of a part of a world's ranks (ConnectOptions::members), all created at the same
// time.
#include <thread>

#include "collective/host/connect.h"
#include "collective/host/local_world.h"
#include "gmock/gmock.h"

namespace tandem::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs two allreduces among four ranks, one of the even ranks and one of the odd ranks. Returns the
// sum on each rank.
std::vector<int32_t> Sums(TransportKind carrier) {
  int port = 0;
  StatusOr<Fd> door = BindLoopbackSocket(&port);
  EXPECT_TRUE(door.ok()) << door.status();
  std::vector<int32_t> sums(4);
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      WorldConfig world;
      world.rank = r;
      world.size = 4;
      world.job = "members";
      world.secret = "secret";
      world.rendezvous = "127.0.0.1:" + std::to_string(port);
      if (r == 0) world.listen_fd = door->Release();
      const ConnectOptions options = {carrier, size_t{16} << 20, {r % 2, r % 2 + 2}};
      auto communicator = Connect(world, {}, options);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      EXPECT_EQ((*communicator)->size(), 2);
      EXPECT_EQ((*communicator)->rank(), r / 2);
      sums[static_cast<size_t>(r)] = 10 + r;
      int32_t* const sum = &sums[static_cast<size_t>(r)];
      const Status status =
          (*communicator)->AllReduce(sum, sum, 1, DType::kI32, ReduceOp::kSum)->Wait(Time::max());
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sums;
}

TEST(MembersTest, EachSumsItsOwn) {
  EXPECT_THAT(Sums(TransportKind::kTcp), ElementsAre(22, 24, 22, 24));
  EXPECT_THAT(Sums(TransportKind::kSharedMemory), ElementsAre(22, 24, 22, 24));
}

TEST(MembersTest, RefusesListsThatAreNone) {
  WorldConfig world;
  world.rank = 1;
  world.size = 4;
  world.job = "members";
  world.secret = "secret";
  world.rendezvous = "127.0.0.1:1";
  for (const std::vector<int>& members : {std::vector<int>{0, 2}, std::vector<int>{3, 1},
                                          std::vector<int>{1, 4}, std::vector<int>{1, 1, 2}}) {
    const auto made = Connect(world, {}, {.members = members});
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << made.status();
    EXPECT_THAT(made.status().message(),
                HasSubstr("of the group of rank 1 are invalid: expected ascending ranks below 4"));
  }
}

}  // namespace
}  // namespace tandem::collective
