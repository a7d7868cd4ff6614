// How ranks that share memory wait for each other: a short spin, then yields (the peer may need
// this processor), then sleep, from which whoever changes something writes a byte on the connection
// to a rank that sleeps for it. So a peer that died, left or aborted is known as the transport
// knows it.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collective/transport/transport.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {

// For one thread.
class ShmWaiter {
 public:
  // `sleepers`: of each rank a word in the memory that all share, 0 at first. `transport` is not
  // owned, and carries nothing else.
  ShmWaiter(std::vector<std::atomic<int32_t>*> sleepers, Transport& transport);

  // Wakes `peer` if it sleeps and waits for this rank. Behind the change that it waits for, which
  // is to be sequentially consistent.
  void Ring(int peer);
  // Returns once ready(), which reads what peers (of which it is one of `peers`, two at most, that
  // it waits for) have written, sequentially consistent; or fails.
  template <typename Ready>
  Status Await(std::span<const int> peers, Time deadline, Ready ready);

 private:
  // How long the processor is offered to others before a sleep.
  static constexpr Duration kYield = std::chrono::microseconds(100);
  static constexpr int32_t kNobody = 0, kAnybody = -1;  // else 1 + the rank

  static void Pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
  Status Sleep(std::span<const int> peers, Time deadline);

  const std::vector<std::atomic<int32_t>*> sleepers_;
  Transport& transport_;
  std::atomic<int32_t>& own_;
  const int spins_;
};

template <typename Ready>
Status ShmWaiter::Await(std::span<const int> peers, Time deadline, Ready ready) {
  for (int i = 0; i < spins_; ++i) {
    if (ready()) return OkStatus();
    Pause();
  }
  const Time sleep_at = std::min(SteadyNow() + kYield, deadline);
  while (SteadyNow() < sleep_at) {
    ::sched_yield();
    if (ready()) return OkStatus();
    TD_RETURN_IF_ERROR(transport_.Health());
  }
  Status status;
  while (status.ok()) {
    own_.store(peers.size() == 1 ? peers[0] + 1 : kAnybody, std::memory_order_seq_cst);
    if (ready()) break;
    status = Sleep(peers, deadline);
  }
  own_.store(kNobody, std::memory_order_relaxed);
  return ready() ? OkStatus() : status;
}

}  // namespace tandem
