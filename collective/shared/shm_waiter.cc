#include "collective/shared/shm_waiter.h"

#include <thread>

#include "common/base/require.h"

namespace tandem::collective {
namespace {

constexpr std::byte kBell{0x5b};
// Number of times that a waiting rank checks for progress before it yields its processor.
// kSpinsCrowded applies if there are more ranks than processors.
constexpr int kSpins = 40, kSpinsCrowded = 1;

}  // namespace

ShmWaiter::ShmWaiter(std::vector<std::atomic<int32_t>*> sleepers, Transport& transport)
    : sleepers_(std::move(sleepers)),
      transport_(transport),
      own_(*sleepers_[static_cast<size_t>(transport.rank())]),
      spins_(sleepers_.size() > std::thread::hardware_concurrency() ? kSpinsCrowded : kSpins) {}

void ShmWaiter::Ring(int peer) {
  TD_REQUIRE(peer >= 0 && static_cast<size_t>(peer) < sleepers_.size() &&
             peer != transport_.rank());
  const int32_t for_whom = sleepers_[static_cast<size_t>(peer)]->load(std::memory_order_seq_cst);
  if (for_whom != transport_.rank() + 1 && for_whom != kAnyPeer) return;
  // Errors are ignored: if the sleeping rank has died, ranks that wait for it detect this.
  transport_.TrySend(peer, {}, std::span(&kBell, 1)).status().IgnoreError();
}

Status ShmWaiter::Sleep(std::span<const int> peers, Time deadline) {
  TD_REQUIRE(!peers.empty());
  TD_RETURN_IF_ERROR(transport_.Wait(-1, peers, deadline));
  for (const int peer : peers) {
    std::byte bells[64];
    TD_ASSIGN_OR_RETURN(const size_t got, transport_.TryRecv(peer, {}, bells));
    if (std::all_of(bells, bells + got, [](std::byte b) { return b == kBell; })) continue;
    return DataLoss("%s sent invalid data on its connection", transport_.PeerName(peer));
  }
  return OkStatus();
}

}  // namespace tandem::collective
