// Microseconds per allreduce (f32 sum, in place) with N ranks over TCP loopback or in process, each
// rank a thread; the input is rewritten before each timed call. Prints `bytes median_us min_us`.
//   allreduce_bench [tcp|inproc] [ranks]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/check.h"
#include "tests/unit/collective/world.h"

namespace tandem {
namespace {

void Bench(World& world, size_t bytes) {
  const size_t count = bytes / sizeof(float);
  const int rounds = bytes >= (4u << 20) ? 30 : bytes >= (1u << 19) ? 200 : 1000;
  std::vector<double> slowest(static_cast<size_t>(rounds), 0.0);
  Mutex mu;
  OnEveryRank(static_cast<int>(world.size()), [&](int r) {
    Communicator& comm = *world[static_cast<size_t>(r)];
    std::vector<float> data(count);
    for (int round = 0; round < rounds; ++round) {
      std::fill(data.begin(), data.end(), static_cast<float>(r + 1));
      CHECK(comm.Barrier()->Wait(In(60)).ok());
      const Time start = SteadyNow();
      const Status status =
          comm.AllReduce(data.data(), data.data(), count, DType::kF32, ReduceOp::kSum)
              ->Wait(In(60));
      const double us = Seconds(SteadyNow() - start) * 1e6;
      CHECK(status.ok()) << status;
      const float expected = static_cast<float>(world.size() * (world.size() + 1) / 2);
      CHECK(data[0] == expected && data[count - 1] == expected);
      MutexLock lock(mu);
      slowest[static_cast<size_t>(round)] = std::max(slowest[static_cast<size_t>(round)], us);
    }
  });
  std::sort(slowest.begin(), slowest.end());
  std::printf("%9zu bytes  median %9.1f us  min %9.1f us\n", bytes, slowest[slowest.size() / 2],
              slowest[0]);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const std::string transport = argc > 1 ? argv[1] : "tcp";
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 2;
  tandem::World world =
      transport == "inproc" ? tandem::MakeInprocCommunicators(ranks) : tandem::MakeTcpWorld(ranks);
  for (const size_t bytes : {4u, 64u << 10, 1u << 20, 16u << 20}) tandem::Bench(world, bytes);
  return 0;
}
