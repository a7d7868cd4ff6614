#include "common/shm_rpc/ring.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <thread>

#include "common/base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::shm_rpc {
namespace {

constexpr int kSpins = 40;
constexpr Duration kYield = std::chrono::microseconds(50);
constexpr char kBell = 0x5b;

int64_t Nanos() { return SteadyNow().time_since_epoch().count(); }

}  // namespace

bool RingSender::Write(const RingEntry& entry) {
  ring_.entries[written_ % ShmRpcRing::kEntries] = entry;
  ring_.written.store(++written_, std::memory_order_seq_cst);
  return ring_.sleeps.load(std::memory_order_seq_cst) != 0 && ring_.sleeps.exchange(0) != 0;
}

StatusOr<uint64_t> RingSender::Taken() {
  const uint64_t taken = ring_.taken.load(std::memory_order_acquire);
  if (taken < taken_ || taken > written_) {
    return DataLoss("the peer reports %d of %d ring entries as read, but reported %d before", taken,
                    written_, taken_);
  }
  return taken_ = taken;
}

StatusOr<std::optional<RingEntry>> RingReceiver::Read() {
  const uint64_t waiting = ring_.written.load(std::memory_order_acquire) - read_;
  if (waiting == 0) return std::optional<RingEntry>();
  if (waiting > ShmRpcRing::kEntries)
    return DataLoss("the ring contains %d entries, which is more than the capacity of the ring",
                    waiting);
  return std::optional<RingEntry>(ring_.entries[read_++ % ShmRpcRing::kEntries]);
}

bool RingReceiver::FallAsleep() {
  ring_.sleeps.store(1, std::memory_order_seq_cst);
  return ring_.written.load(std::memory_order_seq_cst) == read_;
}

SpinBackoff::SpinBackoff(unsigned threads)
    : crowded_(std::thread::hardware_concurrency() < threads) {}

bool SpinBackoff::Wait() {
  if (crowded_) return false;
  if (rounds_ < kSpins) {
    ++rounds_;
#if defined(__x86_64__)
    _mm_pause();
#endif
    return true;
  }
  if (rounds_ == kSpins) {
    ++rounds_;
    until_ns_ = Nanos() + kYield.count();
  }
  if (Nanos() >= until_ns_) return false;
  ::sched_yield();
  return true;
}

bool RingBell(int socket) {
  const ssize_t sent = ::send(socket, &kBell, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == 1 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool DrainBells(int socket) {
  char bells[64];
  const ssize_t got = ::recv(socket, bells, sizeof(bells), MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

StatusOr<Fd> MakeEvent() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return Unavailable("cannot create an event descriptor: %s", ErrnoText(errno));
  return event;
}

void SetEvent(int event) {
  const uint64_t one = 1;
  (void)!::write(event, &one, sizeof(one));
}

}  // namespace tandem::shm_rpc
