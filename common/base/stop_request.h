// What SIGTERM and SIGINT mean to Tandem's programs: the first asks to stop in good order, another
// one later ends at once.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "common/base/clock.h"

namespace tandem {

// Signals so close to the first one are the same request: timeout(1), for one, tells the process
// and then its group.
inline constexpr Duration kSameStopRequest = std::chrono::milliseconds(100);

// The calling thread, and those that it starts from now on, leave the two signals to StopRequests.
void BlockStopSignals();
// Ends the process by `signal`, as if nobody took it.
[[noreturn]] void EndBySignal(int signal);

// Takes the signals on a thread of its own. REQUIRES: BlockStopSignals before any other thread was
// started.
class StopRequests {
 public:
  using Call = std::function<void(int signal)>;
  // Calls `first` for the first signal, `again` for each that is another request.
  StopRequests(Call first, Call again);
  ~StopRequests();  // does not wait for a signal

 private:
  void Run();

  const Call first_, again_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace tandem
