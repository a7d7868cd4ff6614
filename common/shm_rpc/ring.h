// What the two ends of a lane see of each other: rings of entries in memory that both map. Whatever
// is found there was perhaps written by a stranger, and may change while it is read: it is copied
// out first and looked at then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem {

// A call, or the answer to one.
struct RingEntry {
  uint64_t id = 0;      // of the call, chosen by the client
  uint32_t what = 0;    // a call: the method; an answer: its StatusCode
  uint32_t pieces = 0;  // of the message (of an error: its text)
  uint64_t table = 0;   // where the LanePieces lie in the sender's arena, aligned as they are
};
struct RingFragment {
  uint64_t offset = 0, bytes = 0;  // in the sender's arena
};

struct ShmRpcRing {
  static constexpr uint64_t kEntries = 64;
  alignas(64) std::atomic<uint64_t> written;  // entries; by the sender
  alignas(64) std::atomic<uint64_t> taken;    // entries that the sender may forget; by the receiver
  // The receiver waits on the socket and wants a byte there; whoever is about to send it clears
  // this.
  std::atomic<uint32_t> sleeps;
  alignas(64) RingEntry entries[kEntries];
};

// At the begin of a lane's memory, which is zero at first; behind it the arena of the calls.
struct RingHeader {
  ShmRpcRing calls, answers;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared by processes");
inline constexpr size_t kLaneControlBytes = (sizeof(RingHeader) + 4095) / 4096 * 4096;

// One thread at a time.
class LaneSender {
 public:
  explicit LaneSender(ShmRpcRing& ring) : ring_(ring) {}
  // True: the receiver sleeps, and nobody was told so before; ring its bell. REQUIRES: less than
  // kEntries that are not taken.
  bool Write(const RingEntry& entry);
  // How many entries, since the begin, the receiver has done with. DATA_LOSS when that cannot be.
  StatusOr<uint64_t> Taken();

 private:
  ShmRpcRing& ring_;
  uint64_t written_ = 0, taken_ = 0;
};

// One thread.
class LaneReceiver {
 public:
  explicit LaneReceiver(ShmRpcRing& ring) : ring_(ring) {}
  // The next entry, if there is one. DATA_LOSS when what is there cannot be.
  StatusOr<std::optional<RingEntry>> Read();
  uint64_t read() const { return read_; }
  // Entries that Read would give, by the sender's word.
  uint64_t Waiting() const { return ring_.written.load(std::memory_order_relaxed) - read_; }
  // Done with all that was read.
  void Done() { ring_.taken.store(read_, std::memory_order_release); }
  // False: something came meanwhile, do not sleep. Behind a sleep, or no sleep: WakeUp.
  bool FallAsleep();
  void WakeUp() { ring_.sleeps.store(0, std::memory_order_relaxed); }

 private:
  ShmRpcRing& ring_;
  uint64_t read_ = 0;
};

// Waiting without a sleep: looks, then offers the processor to others. For as long as a sleep and
// the wake-up would cost; not at all where there are fewer processors than `threads`, of which one
// then has something better to do.
class SpinBackoff {
 public:
  explicit SpinBackoff(unsigned threads);
  // False: that was long enough.
  bool Wait();
  void Reset() { rounds_ = 0; }

 private:
  const bool crowded_;
  int rounds_ = 0;
  int64_t until_ns_ = 0;
};

// The bell of whoever sleeps: a byte on the socket. False: the other end is gone.
bool RingBell(int socket);
// Takes some of them, so that who never stops ringing keeps nobody here.
bool DrainBells(int socket);

// An eventfd, which wakes up who polls it for POLLIN once it is set. UNAVAILABLE when this process
// may have no more files open.
StatusOr<Fd> MakeEvent();
void SetEvent(int event);

}  // namespace tandem
