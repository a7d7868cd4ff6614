#include "collective/shared/shm_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "common/base/require.h"

namespace tandem::collective {
namespace {

constexpr size_t kPipeBytesMax = 128 << 10, kPipeBytesMin = 4 << 10;
constexpr size_t kPartBytesMax = 4 << 20;  // maximum bytes of all pipes to a rank

size_t PipeBytes(int ranks) {
  const size_t bytes = kPartBytesMax / static_cast<size_t>(ranks) / kPipeBytesMin * kPipeBytesMin;
  return std::clamp(bytes, kPipeBytesMin, kPipeBytesMax);
}

}  // namespace

// A ring buffer from one rank to another. Only the sender changes `written`, its number of written
// bytes. Only the receiver changes `read`, its number of read bytes.
struct ShmTransport::Pipe {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

size_t ShmTransport::PartBytes(int ranks) { return static_cast<size_t>(ranks) * PipeBytes(ranks); }

ShmTransport::Pipe& ShmTransport::At(int from, int to) const {
  TD_REQUIRE(from != to && from >= 0 && from < size());
  std::byte* const all = board_.PipesOf(to).data();
  return *reinterpret_cast<Pipe*>(all + static_cast<size_t>(from) * PipeBytes(size()));
}

StatusOr<size_t> ShmTransport::Used(const Pipe& pipe, int peer) const {
  const uint64_t used =
      pipe.written.load(std::memory_order_seq_cst) - pipe.read.load(std::memory_order_seq_cst);
  if (used <= PipeBytes(size()) - sizeof(Pipe)) return static_cast<size_t>(used);
  return DataLoss("%s wrote invalid data into its shared memory", PeerName(peer));
}

StatusOr<size_t> ShmTransport::TrySend(int peer, std::span<const std::byte> head,
                                       std::span<const std::byte> body) {
  TD_RETURN_IF_ERROR(Health());
  Pipe& pipe = At(rank(), peer);
  const size_t capacity = PipeBytes(size()) - sizeof(Pipe);
  TD_ASSIGN_OR_RETURN(const size_t used, Used(pipe, peer));
  size_t room = capacity - used;
  const uint64_t before = pipe.written.load(std::memory_order_relaxed);
  uint64_t at = before;
  for (std::span<const std::byte> from : {head, body}) {
    from = from.first(std::min(from.size(), room));
    room -= from.size();
    while (!from.empty()) {
      const size_t offset = at % capacity, n = std::min(from.size(), capacity - offset);
      std::memcpy(pipe.bytes() + offset, from.data(), n);
      from = from.subspan(n);
      at += n;
    }
  }
  if (at == before) return size_t{0};
  pipe.written.store(at, std::memory_order_seq_cst);
  board_.doorbells().Ring(peer);
  return static_cast<size_t>(at - before);
}

StatusOr<size_t> ShmTransport::TryRecv(int peer, std::span<std::byte> head,
                                       std::span<std::byte> body) {
  TD_RETURN_IF_ERROR(Health());
  Pipe& pipe = At(peer, rank());
  const size_t capacity = PipeBytes(size()) - sizeof(Pipe);
  TD_ASSIGN_OR_RETURN(size_t left, Used(pipe, peer));
  const uint64_t before = pipe.read.load(std::memory_order_relaxed);
  uint64_t at = before;
  for (std::span<std::byte> to : {head, body}) {
    to = to.first(std::min(to.size(), left));
    left -= to.size();
    while (!to.empty()) {
      const size_t offset = at % capacity, n = std::min(to.size(), capacity - offset);
      std::memcpy(to.data(), pipe.bytes() + offset, n);
      to = to.subspan(n);
      at += n;
    }
  }
  if (at == before) return size_t{0};
  pipe.read.store(at, std::memory_order_seq_cst);
  board_.doorbells().Ring(peer);
  return static_cast<size_t>(at - before);
}

Status ShmTransport::Wait(int send_to, std::span<const int> recv_from, Time deadline) {
  const size_t capacity = PipeBytes(size()) - sizeof(Pipe);
  std::array<int, 2> peers;
  size_t n = 0;
  for (const int peer : recv_from) peers[n++] = peer;
  if (send_to >= 0 && (n == 0 || peers[0] != send_to)) peers[n++] = send_to;
  const std::span<const int> asked(peers.data(), n);
  // A pipe whose counts are inconsistent is treated as ready, so that the next TrySend or TryRecv
  // reports the error.
  const auto moves = [&] {
    if (send_to >= 0 && Used(At(rank(), send_to), send_to).value_or(0) < capacity) return true;
    return std::any_of(recv_from.begin(), recv_from.end(),
                       [&](int peer) { return Used(At(peer, rank()), peer).value_or(1) > 0; });
  };
  const auto ahead = [&](int peer) { return board_.Ahead(peer); };
  // This rank checks Ahead before the pipes. So if a peer has begun the next operation, this rank
  // also sees all bytes that the peer sent before that operation.
  const auto gone_on = [&] { return std::find_if(asked.begin(), asked.end(), ahead); };
  const auto status = board_.doorbells().Await(asked, deadline, [&] {
    const bool gone = gone_on() != asked.end();
    return moves() || gone;
  });
  TD_RETURN_IF_ERROR(status);
  const auto peer = gone_on();
  if (moves() || peer == asked.end()) return OkStatus();
  return board_.Passed(*peer);
}

}  // namespace tandem::collective
