// allreduce_shm, allreduce_tcp: microseconds of an allreduce (f32 sum, in place) among processes of
// this machine. Each process rewrites its whole input before each call. The number of ranks is
// RunOptions::threads. peer_allreduce.cc measures the same calls with Open MPI and Gloo.
#include <sched.h>

#include <algorithm>
#include <thread>

#include "collective/host/connect.h"
#include "collective/host/local_world.h"
#include "tests/bench/allreduce.h"
#include "tests/bench/allreduce_ranks.h"
#include "tests/bench/report.h"

namespace tandem::bench {
namespace {

Status RunRank(const collective::WorldConfig& world, collective::TransportKind carrier, bool arena,
               double seconds, Times times) {
  TD_ASSIGN_OR_RETURN(const auto comm, collective::Connect(world, {}, {carrier}));
  for (const size_t bytes : kSizes) {
    const size_t calls = CallsOf(bytes, seconds);
    // The first calls include the page faults of fresh memory. The next calls overwrite their
    // times.
    TD_ASSIGN_OR_RETURN(const Buffer data,
                        arena ? comm->Allocate(bytes) : comm->Communicator::Allocate(bytes));
    float* const values = reinterpret_cast<float*>(data.get());
    TD_RETURN_IF_ERROR(MeasureAllReduce(*comm, values, bytes, std::min<size_t>(calls, 5), times));
    TD_RETURN_IF_ERROR(MeasureAllReduce(*comm, values, bytes, calls, times));
    times += calls;
  }
  return comm->Call({});
}

// Binds each rank to a separate processor if there are enough processors, as mpirun does.
void Bind(int rank, int ranks) {
  if (static_cast<unsigned>(ranks) > std::thread::hardware_concurrency()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(rank, &one);
  if (::sched_setaffinity(0, sizeof(one), &one) != 0) {
    std::fprintf(stderr, "rank %d is not bound to a processor\n", rank);
  }
}

// Runs one process per rank. Returns one time for each message size, in microseconds: the median
// over all calls of the time of the slowest rank.
StatusOr<std::vector<double>> RunWorld(int ranks, collective::TransportKind carrier, bool arena,
                                       double seconds) {
  int port = 0;
  TD_ASSIGN_OR_RETURN(Fd door, collective::BindLoopbackSocket(&port));
  size_t slots = 0;
  for (const size_t bytes : kSizes) slots += CallsOf(bytes, seconds);
  TD_ASSIGN_OR_RETURN(const std::vector<double> times,
                      ForkRanks(ranks, slots, [&](int r, Times own) {
                        Bind(r, ranks);
                        collective::WorldConfig world;
                        world.rank = r;
                        world.size = ranks;
                        world.job = "allreduce";
                        world.secret = "of a benchmark";
                        world.rendezvous = absl::StrFormat("127.0.0.1:%d", port);
                        if (r == 0) world.listen_fd = door.Release();
                        return RunRank(world, carrier, arena, seconds, own);
                      }));
  std::vector<double> medians;
  size_t at = 0;
  for (const size_t bytes : kSizes) {
    const size_t calls = CallsOf(bytes, seconds);
    medians.push_back(MedianOfSlowest(times, ranks, at, calls));
    at += calls;
  }
  return medians;
}

Report NewReport() {
  Report report;
  report.Add("bytes", std::vector<double>(std::begin(kSizes), std::end(kSizes)));
  return report;
}

}  // namespace

StatusOr<Report> AllReduceShm(const RunOptions& options) {
  Report report = NewReport();
  for (const bool arena : {true, false}) {
    TD_ASSIGN_OR_RETURN(const auto us,
                        RunWorld(options.threads, collective::TransportKind::kSharedMemory, arena,
                                 options.seconds / 2));
    report.Add(arena ? "arena_us" : "private_us", us);
  }
  return report;
}

StatusOr<Report> AllReduceTcp(const RunOptions& options) {
  Report report = NewReport();
  TD_ASSIGN_OR_RETURN(const auto us, RunWorld(options.threads, collective::TransportKind::kTcp,
                                              false, options.seconds));
  report.Add("us", us);
  return report;
}

}  // namespace tandem::bench
