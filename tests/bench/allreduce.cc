// allreduce_shm, allreduce_tcp: microseconds of an allreduce (f32 sum, in place) among processes of
// this machine, each of which rewrites its whole input before each call. RunOptions::threads is the
// number of ranks. peer_allreduce.cc does the same with Open MPI and Gloo.
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "collective/connect.h"
#include "common/base/check.h"
#include "tests/bench/allreduce.h"
#include "tests/bench/report.h"

namespace tandem::bench {
namespace {

// Bound to a free port of this machine; rank 0 listens there.
StatusOr<Fd> OpenDoor(int* port) {
  Fd door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (!door.valid() ||
      ::bind(door.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::getsockname(door.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Unavailable("no port: %s", ErrnoText(errno));
  }
  *port = ntohs(address.sin_port);
  return door;
}

// Microseconds of each call, [rank][call], in memory that the ranks share with their parent.
using Times = double*;

Status Measure(Communicator& comm, float* data, size_t bytes, size_t calls, Times times) {
  const size_t count = bytes / sizeof(float);
  const float expected = static_cast<float>(comm.size()) * static_cast<float>(comm.size() + 1) / 2;
  Collective call;
  call.op = CollectiveOp::kAllReduce;
  call.in = call.out = data;
  call.count = count;
  for (size_t i = 0; i < calls; ++i) {
    std::fill(data, data + count, static_cast<float>(comm.rank() + 1));
    TD_RETURN_IF_ERROR(comm.Call({}));  // a barrier
    const Time start = SteadyNow();
    TD_RETURN_IF_ERROR(comm.Call(call));
    times[static_cast<size_t>(comm.rank()) * calls + i] = Seconds(SteadyNow() - start) * 1e6;
    if (data[0] != expected || data[count - 1] != expected) return Internal("a wrong sum");
  }
  return OkStatus();
}

Status RunRank(const WorldConfig& world, Carrier carrier, bool arena, double seconds, Times times) {
  TD_ASSIGN_OR_RETURN(const auto comm, Connect(world, {}, {carrier}));
  for (const size_t bytes : kSizes) {
    const size_t calls = CallsOf(bytes, seconds);
    // The first ones touch memory for the first time, and are overwritten.
    TD_ASSIGN_OR_RETURN(const Buffer data,
                        arena ? comm->Allocate(bytes) : comm->Communicator::Allocate(bytes));
    float* const values = reinterpret_cast<float*>(data.get());
    TD_RETURN_IF_ERROR(Measure(*comm, values, bytes, std::min<size_t>(calls, 5), times));
    TD_RETURN_IF_ERROR(Measure(*comm, values, bytes, calls, times));
    times += calls * static_cast<size_t>(world.size);
  }
  return comm->Call({});
}

// A processor for each rank where there are enough, as mpirun binds its ranks.
void Bind(int rank, int ranks) {
  if (static_cast<unsigned>(ranks) > std::thread::hardware_concurrency()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(rank, &one);
  if (::sched_setaffinity(0, sizeof(one), &one) != 0) {
    std::fprintf(stderr, "rank %d is not bound to a processor\n", rank);
  }
}

// A process per rank. The median over the calls of each size, of the time of the slowest rank.
StatusOr<std::vector<double>> RunWorld(int ranks, Carrier carrier, bool arena, double seconds) {
  int port = 0;
  TD_ASSIGN_OR_RETURN(Fd door, OpenDoor(&port));
  size_t slots = 0;
  for (const size_t bytes : kSizes) slots += CallsOf(bytes, seconds) * static_cast<size_t>(ranks);
  void* const shared = ::mmap(nullptr, slots * sizeof(double), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED) << ErrnoText(errno);
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = ::fork();
    CHECK_GE(child, 0) << ErrnoText(errno);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    Bind(r, ranks);
    WorldConfig world;
    world.rank = r;
    world.size = ranks;
    world.job = "allreduce";
    world.secret = "of a benchmark";
    world.rendezvous = absl::StrFormat("127.0.0.1:%d", port);
    if (r == 0) world.listen_fd = door.Release();
    const Status status = RunRank(world, carrier, arena, seconds, static_cast<Times>(shared));
    if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", r, ToString(status).c_str());
    std::_Exit(ExitCodeOf(status));
  }
  Status status;
  for (const pid_t child : children) {
    int how = 0;
    ::waitpid(child, &how, 0);
    if (how != 0) status = Internal("a rank failed");
  }
  std::vector<double> medians;
  const double* times = static_cast<Times>(shared);
  for (const size_t bytes : kSizes) {
    const size_t calls = CallsOf(bytes, seconds);
    std::vector<double> slowest(times, times + calls);
    for (int r = 1; r < ranks; ++r) {
      for (size_t i = 0; i < calls; ++i) {
        slowest[i] = std::max(slowest[i], times[static_cast<size_t>(r) * calls + i]);
      }
    }
    medians.push_back(Median(slowest));
    times += calls * static_cast<size_t>(ranks);
  }
  ::munmap(shared, slots * sizeof(double));
  if (!status.ok()) return status;
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
    TD_ASSIGN_OR_RETURN(const auto us, RunWorld(options.threads, Carrier::kSharedMemory, arena,
                                                options.seconds / 2));
    report.Add(arena ? "arena_us" : "private_us", us);
  }
  return report;
}

StatusOr<Report> AllReduceTcp(const RunOptions& options) {
  Report report = NewReport();
  TD_ASSIGN_OR_RETURN(const auto us,
                      RunWorld(options.threads, Carrier::kTcp, false, options.seconds));
  report.Add("us", us);
  return report;
}

}  // namespace tandem::bench
