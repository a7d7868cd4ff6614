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

// The entry of one request or reply in a ring.
struct RingEntry {
  uint64_t id = 0;      // number of the RPC, assigned by the client
  uint32_t what = 0;    // in a request: the method; in a reply: the StatusCode
  uint32_t pieces = 0;  // number of pieces of the message; for an error, of its text
  // Offset of the table of RingFragments in the sender's arena, aligned for them.
  uint64_t table = 0;
};
struct RingFragment {
  uint64_t offset = 0, bytes = 0;  // offset and size in the sender's arena
};

struct ShmRpcRing {
  static constexpr uint64_t kEntries = 64;
  // Number of entries that were written; set by the sender.
  alignas(64) std::atomic<uint64_t> written;
  // Number of entries that the receiver has finished; set by the receiver.
  alignas(64) std::atomic<uint64_t> taken;
  // 1: the receiver sleeps on the socket and needs a byte to wake up. The thread that will send
  // this byte sets the field to 0.
  std::atomic<uint32_t> sleeps;
  alignas(64) RingEntry entries[kEntries];
};

// The start of a connection's memory. The memory is initially zero. The arena for the requests
// follows after this header.
struct RingHeader {
  ShmRpcRing calls, answers;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared by processes");
static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared by processes");
static_assert(sizeof(RingEntry) == 24 && sizeof(RingFragment) == 16);
static_assert(std::has_single_bit(ShmRpcRing::kEntries), "counts wrap at 2^64");
inline constexpr size_t kControlBytes = (sizeof(RingHeader) + 4095) / 4096 * 4096;

// The sending end of a ring. Not thread-safe: one thread at a time.
class RingSender {
 public:
  explicit RingSender(ShmRpcRing& ring) : ring_(ring) {}
  // Writes an entry. Returns true if the receiver sleeps and no other thread wakes it; the caller
  // must then call RingBell. REQUIRES: fewer than kEntries written entries are unfinished.
  bool Write(const RingEntry& entry);
  // Returns the number of entries that the receiver has finished since the start. DATA_LOSS: the
  // receiver wrote an impossible number.
  StatusOr<uint64_t> Taken();

 private:
  ShmRpcRing& ring_;
  uint64_t written_ = 0, taken_ = 0;
};

// The receiving end of a ring. Only one thread may use it.
class RingReceiver {
 public:
  explicit RingReceiver(ShmRpcRing& ring) : ring_(ring) {}
  // Returns the next entry, or nullopt if the sender has not written one. DATA_LOSS: the sender
  // wrote an impossible number of entries.
  StatusOr<std::optional<RingEntry>> Read();
  uint64_t read() const { return read_; }
  // Returns the number of entries that Read could return now, according to the sender.
  uint64_t Waiting() const { return ring_.written.load(std::memory_order_relaxed) - read_; }
  // Tells the sender that all entries that were read are finished.
  void Done() { ring_.taken.store(read_, std::memory_order_release); }
  // Prepares the receiver for a sleep. Returns false if an entry has arrived; the receiver must
  // then not sleep. Call WakeUp after either result.
  bool FallAsleep();
  void WakeUp() { ring_.sleeps.store(0, std::memory_order_relaxed); }

 private:
  ShmRpcRing& ring_;
  uint64_t read_ = 0;
};

// Waits without a sleep: spins, then yields the processor. The wait lasts about as long as a sleep
// and a wake-up would take. Does not wait if the machine has fewer processors than `threads`,
// because another thread then needs the processor.
class SpinBackoff {
 public:
  explicit SpinBackoff(unsigned threads);
  // Waits for a short time and returns true. Returns false without a wait if the waits since
  // Reset() took long enough, or if the machine has too few processors; the caller should then
  // sleep.
  bool Wait();
  void Reset() { rounds_ = 0; }

 private:
  const bool crowded_;
  int rounds_ = 0;
  int64_t until_ns_ = 0;
};

// Wakes a sleeping peer by one byte on the socket. Returns false if the peer has closed the socket.
bool RingBell(int socket);
// Reads up to 64 of the bytes that the peer's RingBell sent. The limit prevents a peer that sends
// without end from blocking this thread. Returns false if the peer has closed the socket.
bool DrainBells(int socket);

// Returns an eventfd. poll() with POLLIN reports the eventfd after SetEvent(). UNAVAILABLE: the
// process may open no more files.
StatusOr<Fd> MakeEvent();
void SetEvent(int event);

}  // namespace tandem::shm_rpc
