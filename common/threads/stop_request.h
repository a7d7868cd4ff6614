// SIGTERM and SIGINT in Tandem's programs. The first signal requests an orderly stop, a later one
// ends the process immediately.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "common/base/clock.h"

namespace tandem {

// Signals within this time after the first one are the same request. For example, timeout(1)
// signals the process and then its group.
inline constexpr Duration kSameStopRequest = std::chrono::milliseconds(100);

// Blocks the two signals in the calling thread and in all threads that it starts later, so that
// only StopRequests receives them.
void BlockStopSignals();
// Ends the process by `signal`, as if there were no handler.
[[noreturn]] void EndBySignal(int signal);

// Receives the signals on its own thread. REQUIRES that BlockStopSignals was called before any
// other thread was started.
class StopRequests {
 public:
  using Call = std::function<void(int signal)>;
  // Calls `first` for the first signal and `again` for each further request.
  StopRequests(Call first, Call again);
  ~StopRequests();  // does not wait for a signal

 private:
  void Run();

  const Call first_, again_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace tandem
