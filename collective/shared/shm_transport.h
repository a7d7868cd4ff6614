// Streams of bytes between ranks that share memory: a ring of bytes for each direction of each
// pair. What has no form of its own on the board (shm_collectives.h) runs over them by its table.
#pragma once

#include <span>
#include <string>

#include "collective/shared/shm_collectives.h"
#include "collective/transport/transport.h"

namespace tandem {

class ShmTransport final : public Transport {
 public:
  // Of each rank's part of the memory: the pipes that lead to it.
  static size_t PartBytes(int ranks);

  // Neither is owned. `below` connects the same ranks; failures are its affair.
  ShmTransport(ShmCollectives& board, Transport& below) : board_(board), below_(below) {}

  int rank() const override { return below_.rank(); }
  int size() const override { return below_.size(); }
  std::string PeerName(int peer) const override { return below_.PeerName(peer); }
  StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                           std::span<const std::byte> body) override;
  StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head, std::span<std::byte> body) override;
  // FAILED_PRECONDITION when a peer has gone into a collective of the board meanwhile.
  Status Wait(int send_to, std::span<const int> recv_from, Time deadline) override;
  void Abort(const Status& status) override { below_.Abort(status); }
  Status Health() const override { return below_.Health(); }

 private:
  struct Pipe;

  Pipe& At(int from, int to) const;
  // Bytes that are in the pipe; DATA_LOSS naming `peer` where its counts make no sense.
  StatusOr<size_t> Used(const Pipe& pipe, int peer) const;

  ShmCollectives& board_;
  Transport& below_;
};

}  // namespace tandem
