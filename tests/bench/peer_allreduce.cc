// The peers' side of allreduce_shm and allreduce_tcp. The program makes the same calls with Open
// MPI (-DWITH_MPI, started by mpirun) or with Gloo (-DWITH_GLOO, which forks one process per rank).
// The program prints one JSON object: for each size the median of the slowest rank's times, in
// microseconds. Usage: peer_allreduce SECONDS [RANKS FOLDER]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/allreduce.h"

#ifdef WITH_MPI
#include <mpi.h>
#else
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

using tandem::bench::CallsOf;
using tandem::bench::kSizes;

struct Peer {
  int rank = 0, size = 1;
  std::function<void()> barrier;
  std::function<void(float*, size_t)> allreduce;
  // Replaces each element on rank 0 by the maximum of this element over all ranks.
  std::function<void(std::vector<double>&)> slowest;
};

int Run(const Peer& peer, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::string text;
  for (const size_t bytes : kSizes) {
    const size_t count = bytes / sizeof(float), calls = CallsOf(bytes, seconds);
    float* const data = static_cast<float*>(std::aligned_alloc(64, std::max<size_t>(bytes, 64)));
    const float expected = static_cast<float>(peer.size * (peer.size + 1) / 2);
    std::vector<double> times(calls);
    for (size_t i = 0; i < calls + 5; ++i) {
      std::fill(data, data + count, static_cast<float>(peer.rank + 1));
      peer.barrier();
      const auto start = Clock::now();
      peer.allreduce(data, count);
      const std::chrono::duration<double, std::micro> us = Clock::now() - start;
      if (data[0] != expected || data[count - 1] != expected) return 1;
      if (i >= 5) times[i - 5] = us.count();
    }
    peer.slowest(times);
    std::sort(times.begin(), times.end());
    char number[32];
    std::snprintf(number, sizeof(number), "%s%.2f", text.empty() ? "" : ", ", times[calls / 2]);
    text += number;
    std::free(data);
  }
  if (peer.rank == 0) std::printf("{\"us\": [%s]}\n", text.c_str());
  return 0;
}

}  // namespace

#ifdef WITH_MPI
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Peer peer;
  MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.size);
  peer.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  peer.allreduce = [](float* data, size_t n) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  peer.slowest = [](std::vector<double>& times) {
    MPI_Allreduce(MPI_IN_PLACE, times.data(), static_cast<int>(times.size()), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
  };
  const int code = Run(peer, std::atof(argv[1]));
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
#else
int main(int, char** argv) {
  const int ranks = std::atoi(argv[2]);
  int rank = 0;
  // Each process forks the next rank and waits for it.
  while (rank + 1 < ranks && fork() == 0) ++rank;
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::transport::tcp::attr where("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(argv[3]);
  context->connectFullMesh(store, device);
  Peer peer;
  peer.rank = rank;
  peer.size = ranks;
  peer.barrier = [&] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  };
  const auto reduce = [&](auto* data, size_t n, auto function) {
    gloo::AllreduceOptions options(context);
    options.setOutput(data, n);
    options.setReduceFunction(function);
    gloo::allreduce(options);
  };
  peer.allreduce = [&](float* data, size_t n) {
    reduce(data, n,
           [](void* c, const void* a, const void* b, size_t k) { gloo::sum<float>(c, a, b, k); });
  };
  peer.slowest = [&](std::vector<double>& times) {
    reduce(times.data(), times.size(),
           [](void* c, const void* a, const void* b, size_t k) { gloo::max<double>(c, a, b, k); });
  };
  const int code = Run(peer, std::atof(argv[1]));
  int how = 0;
  if (rank + 1 < ranks) wait(&how);
  return code != 0 || how != 0 ? 1 : 0;
}
#endif
