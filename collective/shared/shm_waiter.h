// Lets ranks that share memory wait for each other. A waiting rank first spins, then yields its
// processor to its peers, and then sleeps until a byte arrives on a connection. A rank that changes
// shared state sends one byte to each sleeping rank that waits for the change. During a sleep the
// transport also reports peers that died, left or aborted.
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

namespace tandem::collective {

// Lets one rank wait for its peers. Not thread-safe: for one thread.
class ShmWaiter {
 public:
  // `sleepers`: one word per rank in shared memory, initially 0. `transport` is not owned, and
  // nothing else may send or receive on `transport`.
  ShmWaiter(std::vector<std::atomic<int32_t>*> sleepers, Transport& transport);

  // Wakes `peer` if it sleeps and waits for this rank. Call it after the change for which the peer
  // waits. REQUIRES: the change was written with sequential consistency.
  void Ring(int peer);
  // Blocks until ready() returns true, then returns OK. Fails if a peer fails or the deadline
  // passes. ready() must read data of peers with sequential consistency. `peers` (at most two) are
  // the ranks that write these data.
  template <typename Ready>
  Status Await(std::span<const int> peers, Time deadline, Ready ready);

 private:
  // Time for which a waiting rank yields its processor before it sleeps.
  static constexpr Duration kYield = std::chrono::microseconds(100);
  // Values of a rank's sleep word. 1 + r: the rank sleeps until rank r wakes it. kAnyPeer: the rank
  // sleeps until any peer wakes it.
  static constexpr int32_t kAwake = 0, kAnyPeer = -1;

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
    own_.store(peers.size() == 1 ? peers[0] + 1 : kAnyPeer, std::memory_order_seq_cst);
    if (ready()) break;
    status = Sleep(peers, deadline);
  }
  own_.store(kAwake, std::memory_order_relaxed);
  return ready() ? OkStatus() : status;
}

}  // namespace tandem::collective
