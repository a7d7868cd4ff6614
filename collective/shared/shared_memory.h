// Memory that the ranks of one host share (common/shm/sealed_memory.h): made by rank 0, handed to
// the others over a Unix socket.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "collective/rendezvous/rendezvous.h"
#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"
#include "common/shm/sealed_memory.h"

namespace tandem {

// `ranks` parts of equal size. Pages take memory once they are touched.
class SharedMemory {
 public:
  // A new object, of ranks * part_bytes (a multiple of the page size).
  static StatusOr<std::shared_ptr<SharedMemory>> Create(int ranks, size_t part_bytes);
  // Of a peer: refused unless it has this very size and can neither shrink nor grow.
  static StatusOr<std::shared_ptr<SharedMemory>> Map(Fd fd, int ranks, size_t part_bytes);
  SharedMemory(std::shared_ptr<SealedMemory> all, size_t part_bytes)
      : all_(std::move(all)), part_bytes_(part_bytes) {}

  std::span<std::byte> Part(int rank) const {
    return all_->bytes().subspan(static_cast<size_t>(rank) * part_bytes_, part_bytes_);
  }
  int fd() const { return all_->fd(); }

 private:
  const std::shared_ptr<SealedMemory> all_;
  const size_t part_bytes_;
};

// Called by all ranks of `mesh` at once, with the same arguments, before anything else is sent on
// its data connections. All get memory, or all get null (in the log of rank 0: why). Ranks are on
// one host when they reach each other over an abstract Unix socket: they share the kernel and its
// network namespace. `required`: that one cannot is an error on all ranks, naming it.
StatusOr<std::shared_ptr<SharedMemory>> ShareMemory(Mesh& mesh, size_t part_bytes, bool required,
                                                    Time deadline);

}  // namespace tandem
