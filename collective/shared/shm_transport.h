// A Transport in shared memory, with one ring buffer per direction and pair of ranks. It runs the
// schedules of operations that ShmCollectives does not implement.
#pragma once

#include <span>
#include <string>

#include "collective/shared/shm_collectives.h"
#include "collective/transport/transport.h"

namespace tandem::collective {

class ShmTransport final : public Transport {
 public:
  // Returns the bytes that the pipes to a rank need in the rank's part of the memory.
  static size_t PartBytes(int ranks);

  // `board` and `below` are not owned. `below` connects the same ranks and reports their failures.
  ShmTransport(ShmCollectives& board, Transport& below) : board_(board), below_(below) {}

  int rank() const override { return below_.rank(); }
  int size() const override { return below_.size(); }
  std::string PeerName(int peer) const override { return below_.PeerName(peer); }
  StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                           std::span<const std::byte> body) override;
  StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head, std::span<std::byte> body) override;
  // Waits as Transport::Wait does. FAILED_PRECONDITION: a peer has begun an operation that this
  // rank has not begun.
  Status Wait(int send_to, std::span<const int> recv_from, Time deadline) override;
  void Abort(const Status& status) override { below_.Abort(status); }
  Status Health() const override { return below_.Health(); }

 private:
  struct Pipe;

  Pipe& At(int from, int to) const;
  // Returns the number of bytes in the pipe. DATA_LOSS: the counts that `peer` wrote are
  // inconsistent; the message names `peer`.
  StatusOr<size_t> Used(const Pipe& pipe, int peer) const;

  ShmCollectives& board_;
  Transport& below_;
};

}  // namespace tandem::collective
