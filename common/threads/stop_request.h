// Handles SIGTERM and SIGINT in Tandem's programs. The first signal requests an orderly stop. A
// later signal ends the process immediately.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "common/base/clock.h"

namespace tandem {

// Further signals within this time after the first one belong to the same stop request. For
// example, timeout(1) signals the process and then its group.
inline constexpr Duration kSameStopRequest = std::chrono::milliseconds(100);

// Blocks SIGTERM and SIGINT in the calling thread and in all threads that it starts later. Only
// StopRequests then receives these signals.
void BlockStopSignals();
// Ends the process by `signal`, as if the process had no signal handler.
[[noreturn]] void EndBySignal(int signal);

// Receives SIGTERM and SIGINT on a separate thread. REQUIRES: BlockStopSignals was called before
// any other thread was started.
class StopRequests {
 public:
  using Call = std::function<void(int signal)>;
  // Calls `first` for the first stop request and `again` for each later one.
  StopRequests(Call first, Call again);
  ~StopRequests();  // ends the receiving thread without waiting for a signal

 private:
  void Run();

  const Call first_, again_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace tandem
