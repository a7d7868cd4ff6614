#include "common/threads/stop_request.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "common/threads/runner.h"

namespace tandem {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void EndBySignal(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  _exit(128 + signal);
}

StopRequests::StopRequests(Call first, Call again)
    : first_(std::move(first)), again_(std::move(again)), thread_([this] { Run(); }) {}

StopRequests::~StopRequests() {
  done_ = true;
  // SIGTERM wakes the thread from sigtimedwait. It is blocked, so it does not end the process.
  pthread_kill(thread_.native_handle(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread)
  thread_.join();
}

void StopRequests::Run() {
  SetThreadName("signals");
  const sigset_t set = StopSignals();
  const timespec tick = {60, 0};
  std::optional<Time> asked;
  while (!done_) {
    const int signal = sigtimedwait(&set, nullptr, &tick);
    if (signal < 0 || done_) continue;
    const Time now = SteadyNow();
    if (!asked) {
      asked = now;
      first_(signal);
    } else if (now - *asked > kSameStopRequest) {
      again_(signal);
    }
  }
}

}  // namespace tandem
