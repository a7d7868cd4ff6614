// Memory that the ranks of one host share (common/shm/sealed_memory.h). Rank 0 creates the memory,
// and sends its file descriptor to the other ranks over a Unix socket.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "collective/rendezvous/rendezvous.h"
#include "common/base/clock.h"
#include "common/base/require.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "common/shm/sealed_memory.h"

namespace tandem::collective {

// Shared memory that is divided into parts of equal size, one for each rank. A page needs memory
// only after its first access.
class SharedMemory {
 public:
  // Creates new shared memory of ranks * part_bytes bytes. REQUIRES: part_bytes is a multiple of
  // the page size.
  static StatusOr<std::shared_ptr<SharedMemory>> Create(int ranks, size_t part_bytes);
  // Maps shared memory that another process created. PERMISSION_DENIED: the memory has another
  // size, or its size is not sealed.
  static StatusOr<std::shared_ptr<SharedMemory>> Map(Fd fd, int ranks, size_t part_bytes);
  SharedMemory(std::shared_ptr<SealedMemory> all, size_t part_bytes)
      : all_(std::move(all)), part_bytes_(part_bytes) {}

  std::span<std::byte> Part(int rank) const {
    TD_REQUIRE(rank >= 0 && (static_cast<size_t>(rank) + 1) * part_bytes_ <= all_->bytes().size());
    return all_->bytes().subspan(static_cast<size_t>(rank) * part_bytes_, part_bytes_);
  }
  int fd() const { return all_->fd(); }

 private:
  const std::shared_ptr<SealedMemory> all_;
  const size_t part_bytes_;
};

// Shares memory among all ranks. All ranks of `mesh` must call this function together, with the
// same arguments, before they send anything else on the data connections of `mesh`. Either all
// ranks get the memory, or all ranks get null and rank 0 logs the reason. The function considers
// ranks to be on one host if they reach rank 0 over an abstract Unix socket. Both sides of such a
// socket have the same kernel and network namespace. If `required` is true and one rank cannot
// share memory, all ranks fail with an error that names this rank.
StatusOr<std::shared_ptr<SharedMemory>> ShareMemory(Mesh& mesh, size_t part_bytes, bool required,
                                                    Time deadline);

}  // namespace tandem::collective
