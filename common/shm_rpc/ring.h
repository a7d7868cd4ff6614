// The shared state of the two ends of a shm RPC connection: rings of entries in memory that both
// processes map. The peer may be malicious and may change the data during a read. Each end
// therefore copies data out before it validates them.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::shm_rpc {

// A request or a reply.
struct RingEntry {
  uint64_t id = 0;      // number of the call, assigned by the client
  uint32_t what = 0;    // request: the method; reply: its StatusCode
  uint32_t pieces = 0;  // pieces of the message (of an error: its text)
  uint64_t table = 0;   // offset of the RingFragments in the sender's arena, aligned for them
};
struct RingFragment {
  uint64_t offset = 0, bytes = 0;  // in the sender's arena
};

struct ShmRpcRing {
  static constexpr uint64_t kEntries = 64;
  alignas(64) std::atomic<uint64_t> written;  // entries written; set by the sender
  alignas(64) std::atomic<uint64_t> taken;    // entries finished; set by the receiver
  // 1: the receiver sleeps on the socket and needs a byte to wake. The thread that will send the
  // byte clears it.
  std::atomic<uint32_t> sleeps;
  alignas(64) RingEntry entries[kEntries];
};

// At the start of a connection's memory, which is initially zero. The arena of the requests
// follows.
struct RingHeader {
  ShmRpcRing calls, answers;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared by processes");
static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared by processes");
static_assert(sizeof(RingEntry) == 24 && sizeof(RingFragment) == 16);
static_assert(std::has_single_bit(ShmRpcRing::kEntries), "counts wrap at 2^64");
inline constexpr size_t kControlBytes = (sizeof(RingHeader) + 4095) / 4096 * 4096;

// The sending end of a ring. One thread at a time.
class RingSender {
 public:
  explicit RingSender(ShmRpcRing& ring) : ring_(ring) {}
  // Returns true if the receiver sleeps and no thread has begun to wake it: the caller must call
  // RingBell. REQUIRES that fewer than kEntries entries are not yet taken.
  bool Write(const RingEntry& entry);
  // Returns the number of entries, since the start, that the receiver has finished. DATA_LOSS: the
  // number is impossible.
  StatusOr<uint64_t> Taken();

 private:
  ShmRpcRing& ring_;
  uint64_t written_ = 0, taken_ = 0;
};

// The receiving end of a ring. For one thread.
class RingReceiver {
 public:
  explicit RingReceiver(ShmRpcRing& ring) : ring_(ring) {}
  // Returns the next entry, if there is one. DATA_LOSS: the entry count is impossible.
  StatusOr<std::optional<RingEntry>> Read();
  uint64_t read() const { return read_; }
  // The number of entries that Read would return, according to the sender.
  uint64_t Waiting() const { return ring_.written.load(std::memory_order_relaxed) - read_; }
  // Marks all entries that were read as finished.
  void Done() { ring_.taken.store(read_, std::memory_order_release); }
  // Prepares for a sleep. False: an entry has arrived, do not sleep. In both cases call WakeUp
  // afterwards.
  bool FallAsleep();
  void WakeUp() { ring_.sleeps.store(0, std::memory_order_relaxed); }

 private:
  ShmRpcRing& ring_;
  uint64_t read_ = 0;
};

// Waits without a sleep: spins, then yields the processor, for about as long as a sleep and its
// wake-up would take. Does not wait if there are fewer processors than `threads`, because another
// thread then needs the processor.
class SpinBackoff {
 public:
  explicit SpinBackoff(unsigned threads);
  // False: the time is over.
  bool Wait();
  void Reset() { rounds_ = 0; }

 private:
  const bool crowded_;
  int rounds_ = 0;
  int64_t until_ns_ = 0;
};

// Wakes a sleeping peer with a byte on the socket. False: the peer has closed the socket.
bool RingBell(int socket);
// Reads some of these bytes. It does not read all, so a peer that sends without end cannot block
// this thread. False: the peer has closed the socket.
bool DrainBells(int socket);

// Returns an eventfd. It wakes a poll for POLLIN when it is set. UNAVAILABLE: the process may open
// no more files.
StatusOr<Fd> MakeEvent();
void SetEvent(int event);

}  // namespace tandem::shm_rpc
