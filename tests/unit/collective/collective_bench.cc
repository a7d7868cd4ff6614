// Measures microseconds per operation (f32, in place) with N ranks, one thread per rank. Each rank
// rewrites its input before each timed call. The column of bytes shows the size of the whole buffer
// that an operation sums, gathers, scatters, exchanges or sends to the next rank. Usage:
// collective_bench [tcp|inproc|shm] [RANKS] [OPERATION as in Name(CollectiveOp)]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/check.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

// Returns the call of rank `own` with `count` elements. `count` is a multiple of the number of
// ranks.
Collective CallOf(CollectiveOp op, int own, int ranks, float* data, size_t count) {
  const size_t part = count / static_cast<size_t>(ranks), at = static_cast<size_t>(own) * part;
  Collective call;
  call.op = op;
  call.in = op == CollectiveOp::kAllGather ? data + at : data;
  call.out = op == CollectiveOp::kReduceScatter ? data + at : data;
  const bool parts = op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter ||
                     op == CollectiveOp::kAllToAll;
  call.count = parts ? part : count;
  call.to = (own + 1) % ranks;
  call.from = (own + ranks - 1) % ranks;
  return call;
}

// Returns the value of each element in the part of rank `own` after the operation, if each element
// of rank r was r + 1 before.
float Expected(CollectiveOp op, int own, int ranks) {
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
      return sum;
    case CollectiveOp::kBroadcast:
      return 1;
    case CollectiveOp::kSendRecv:
      return static_cast<float>((own + ranks - 1) % ranks + 1);
    default:
      return static_cast<float>(own + 1);
  }
}

void Bench(World& world, CollectiveOp op, size_t bytes) {
  const int ranks = static_cast<int>(world.size());
  const size_t part = std::max<size_t>(bytes / sizeof(float) / world.size(), 1);
  const int rounds = bytes >= (4u << 20) ? 30 : bytes >= (1u << 19) ? 200 : 1000;
  std::vector<double> slowest(static_cast<size_t>(rounds), 0.0);
  Mutex mu;
  OnEveryRank(ranks, [&](int r) {
    Communicator& comm = *world[static_cast<size_t>(r)];
    std::vector<float> data(part * world.size());
    const Collective call = CallOf(op, r, ranks, data.data(), data.size());
    for (int round = 0; round < rounds; ++round) {
      std::fill(data.begin(), data.end(), static_cast<float>(r + 1));
      CHECK(comm.Call({}).ok());  // a call without an operation is a barrier
      const Time start = SteadyNow();
      const Status status = comm.Call(call);
      const double us = Seconds(SteadyNow() - start) * 1e6;
      CHECK(status.ok()) << status;
      const float* const own = data.data() + static_cast<size_t>(r) * part;
      CHECK(own[0] == Expected(op, r, ranks) && own[part - 1] == own[0]) << Name(op);
      MutexLock lock(mu);
      slowest[static_cast<size_t>(round)] = std::max(slowest[static_cast<size_t>(round)], us);
    }
  });
  std::sort(slowest.begin(), slowest.end());
  std::printf("%-14s %9zu bytes  median %9.1f us  min %9.1f us\n", Name(op), bytes,
              slowest[slowest.size() / 2], slowest[0]);
}

}  // namespace
}  // namespace tandem::collective

int main(int argc, char** argv) {
  using tandem::collective::CollectiveOp;
  const std::string transport = argc > 1 ? argv[1] : "tcp";
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 2;
  const std::string only = argc > 3 ? argv[3] : "";
  tandem::collective::World world = transport == "inproc"
                                        ? tandem::collective::MakeInprocCommunicators(ranks)
                                    : transport == "shm" ? tandem::collective::MakeShmWorld(ranks)
                                                         : tandem::collective::MakeTcpWorld(ranks);
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast, CollectiveOp::kAllGather,
        CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll, CollectiveOp::kSendRecv}) {
    if (!only.empty() && only != Name(op)) continue;
    for (const size_t bytes : {4u, 64u << 10, 1u << 20, 16u << 20})
      tandem::collective::Bench(world, op, bytes);
  }
  return 0;
}
