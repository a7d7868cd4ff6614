// A rank fails at each of its transport calls in turn, in every operation. All other ranks must get
// an error, and no rank may wait forever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "collective/host/host_communicator.h"
#include "collective/shared/shared_memory.h"
#include "collective/transport/tcp.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::HasSubstr;

// A transport whose call number `at` (counted from 1) fails, whatever its kind.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> below, int at) : below_(std::move(below)), at_(at) {}

  int rank() const override { return below_->rank(); }
  int size() const override { return below_->size(); }
  std::string PeerName(int peer) const override { return below_->PeerName(peer); }
  StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                           std::span<const std::byte> body) override {
    Count();
    return below_->TrySend(peer, head, body);
  }
  StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head,
                           std::span<std::byte> body) override {
    Count();
    return below_->TryRecv(peer, head, body);
  }
  Status Wait(int send_to, std::span<const int> recv_from, Time deadline) override {
    Count();
    return below_->Wait(send_to, recv_from, deadline);
  }
  void Abort(const Status& status) override { below_->Abort(status); }
  Status Health() const override {
    Count();
    return below_->Health();
  }

 private:
  void Count() const {
    if (calls_.fetch_add(1) + 1 == at_) below_->Abort(Internal("out of order at call %d", at_));
  }

  const std::unique_ptr<Transport> below_;
  const int at_;
  mutable std::atomic<int> calls_{0};
};

enum class Road { kInproc, kTcp, kShm };

// Connects `size` ranks. Call number `at` of rank 1's transport fails.
World MakeFaulty(Road road, int size, int at) {
  World world(static_cast<size_t>(size));
  HostCommunicatorConfig config;
  config.rule.pair_bytes_max = config.rule.direct_bytes_max = 64;
  auto inproc = MakeInprocTransports(size, 1000);
  const Door door = road == Road::kInproc ? Door() : BindLoopbackSocket();
  OnEveryRank(size, [&](int r) {
    const auto own = static_cast<size_t>(r);
    std::unique_ptr<Transport> transport = std::move(inproc[own]);
    std::shared_ptr<SharedMemory> memory;
    if (road != Road::kInproc) {
      auto mesh = JoinWorld(TestWorld(door, r, size));
      CHECK(mesh.ok()) << mesh.status();
      if (road == Road::kShm) {
        auto shared = ShareMemory(*mesh, ShmCollectives::PartBytes(4096, size), true, In(20));
        CHECK(shared.ok()) << shared.status();
        memory = *shared;
      }
      transport = *MakeTcpTransport(*std::move(mesh));
    }
    if (r == 1) transport = std::make_unique<FaultyTransport>(std::move(transport), at);
    world[own] = std::make_unique<HostCommunicator>(std::move(transport), config, memory);
  });
  return world;
}

using Run = std::function<std::shared_ptr<Work>(Communicator&, float* data, CallOptions)>;
struct Operation {
  const char* name;
  Run run;
};
constexpr size_t kPart = 3000;

const Operation kOperations[] = {
    {"AllReduce",
     [](Communicator& c, float* data, CallOptions options) {
       return c.AllReduce(data, data, kPart, DType::kF32, ReduceOp::kSum, options);
     }},
    {"Reduce",
     [](Communicator& c, float* data, CallOptions options) {
       return c.Reduce(data, data, kPart, DType::kF32, ReduceOp::kSum, 1, options);
     }},
    {"Broadcast",
     [](Communicator& c, float* data, CallOptions options) {
       return c.Broadcast(data, kPart, DType::kF32, 2, options);
     }},
    {"AllGather",
     [](Communicator& c, float* data, CallOptions options) {
       return c.AllGather(data + kPart * c.rank(), data, kPart, DType::kF32, options);
     }},
    {"ReduceScatter",
     [](Communicator& c, float* data, CallOptions options) {
       return c.ReduceScatter(data, data + kPart * c.rank(), kPart, DType::kF32, ReduceOp::kSum,
                              options);
     }},
    {"AllToAll",
     [](Communicator& c, float* data, CallOptions options) {
       return c.AllToAll(data, data, kPart, DType::kF32, options);
     }},
    {"SendRecv",
     [](Communicator& c, float* data, CallOptions options) {
       const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
       return c.SendRecv(data, next, data, last, kPart, DType::kF32, options);
     }},
    {"Barrier", [](Communicator& c, float*, CallOptions options) { return c.Barrier(options); }},
};

class FaultTest : public ::testing::TestWithParam<Road> {};

TEST_P(FaultTest, AtEveryStepOfEveryOperation) {
  constexpr int kSize = 3, kCallsMax = 200;
  for (const Operation& operation : kOperations) {
    int faults = 0;
    bool whole = false;  // whether the operation completed before the fault
    for (int at = 1; at <= kCallsMax && !whole; at += 1 + at / 8) {
      SCOPED_TRACE(absl::StrFormat("%s, call %d", operation.name, at));
      World world = MakeFaulty(GetParam(), kSize, at);
      std::atomic<int> ended{0};
      OnEveryRank(kSize, [&](int r) {
        Communicator& own = *world[static_cast<size_t>(r)];
        std::vector<float> data(kPart * kSize);
        const Time before = SteadyNow();
        Status status = operation.run(own, data.data(), {.deadline = In(60)})->Wait(In(90));
        if (status.ok()) ended.fetch_add(1);
        // A rank that completed the operation before the fault gets the error in one of these
        // barriers.
        for (int i = 0; i < 100 && status.ok(); ++i) {
          status = own.Barrier({.deadline = In(60)})->Wait(In(90));
        }
        EXPECT_LT(Seconds(SteadyNow() - before), 50.0);
        EXPECT_EQ(status.code(), StatusCode::kInternal) << status;
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(absl::StrFormat("out of order at call %d", at)));
        if (r != 1) {
          EXPECT_THAT(std::string(status.message()),
                      ::testing::ContainsRegex("rank 1( .*)? aborted"));
        }
      });
      ++faults;
      whole = ended.load() == kSize;
    }
    EXPECT_GE(faults, 2) << operation.name;
  }
}

std::string NameOf(const ::testing::TestParamInfo<Road>& info) {
  return info.param == Road::kInproc ? "inproc" : info.param == Road::kTcp ? "tcp" : "shm";
}
INSTANTIATE_TEST_SUITE_P(Roads, FaultTest, ::testing::Values(Road::kInproc, Road::kTcp, Road::kShm),
                         NameOf);

}  // namespace
}  // namespace tandem::collective
