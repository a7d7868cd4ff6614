#include "tests/bench/allreduce_ranks.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/base/check.h"
#include "tests/bench/report.h"

namespace tandem::bench {

Status MeasureAllReduce(collective::Communicator& comm, float* data, size_t bytes, size_t calls,
                        Times times) {
  const size_t count = bytes / sizeof(float);
  const float expected = static_cast<float>(comm.size()) * static_cast<float>(comm.size() + 1) / 2;
  collective::Collective call;
  call.op = collective::CollectiveOp::kAllReduce;
  call.in = call.out = data;
  call.count = count;
  for (size_t i = 0; i < calls; ++i) {
    std::fill(data, data + count, static_cast<float>(comm.rank() + 1));
    TD_RETURN_IF_ERROR(comm.Call({}));  // a collective without buffers is a barrier
    const Time start = SteadyNow();
    TD_RETURN_IF_ERROR(comm.Call(call));
    times[i] = Seconds(SteadyNow() - start) * 1e6;
    if (data[0] != expected || data[count - 1] != expected) return Internal("a wrong sum");
  }
  return OkStatus();
}

StatusOr<std::vector<double>> ForkRanks(int ranks, size_t slots,
                                        const std::function<Status(int rank, Times own)>& body,
                                        const std::function<void()>& meanwhile) {
  const size_t all = slots * static_cast<size_t>(ranks);
  void* const shared = ::mmap(nullptr, all * sizeof(double), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED) << ErrnoText(errno);
  const auto times = static_cast<Times>(shared);
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = ::fork();
    CHECK_GE(child, 0) << ErrnoText(errno);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    const Status status = body(r, times + static_cast<size_t>(r) * slots);
    if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", r, ToString(status).c_str());
    std::_Exit(ExitCodeOf(status));
  }
  if (meanwhile != nullptr) meanwhile();
  Status status;
  for (const pid_t child : children) {
    int how = 0;
    ::waitpid(child, &how, 0);
    if (how != 0) status = Internal("a rank failed");
  }
  const std::vector<double> result(times, times + all);
  ::munmap(shared, all * sizeof(double));
  if (!status.ok()) return status;
  return result;
}

double MedianOfSlowest(const std::vector<double>& times, int ranks, size_t at, size_t calls) {
  const size_t slots = times.size() / static_cast<size_t>(ranks);
  std::vector<double> slowest(calls, 0);
  for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
    for (size_t i = 0; i < calls; ++i) {
      slowest[i] = std::max(slowest[i], times[r * slots + at + i]);
    }
  }
  return Median(slowest);
}

}  // namespace tandem::bench
