// Memory that the ranks of one host share: made by rank 0, sealed so that nobody can take it away
// from under another (a shrunken file is a SIGBUS), handed to the others over a Unix socket.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "collective/fd.h"
#include "collective/rendezvous.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// One mapping of `ranks` parts of equal size. Pages take memory once they are touched.
class SharedMemory {
 public:
  // A new object (memfd_create) without a name, of ranks * part_bytes (a multiple of the page
  // size).
  static StatusOr<std::shared_ptr<SharedMemory>> Create(int ranks, size_t part_bytes);
  // Of a peer: refused unless it has this very size and can neither shrink nor grow.
  static StatusOr<std::shared_ptr<SharedMemory>> Map(Fd fd, int ranks, size_t part_bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> Part(int rank) const {
    return {base_ + static_cast<size_t>(rank) * part_bytes_, part_bytes_};
  }
  int fd() const { return fd_.get(); }

 private:
  SharedMemory(Fd fd, std::byte* base, int ranks, size_t part_bytes)
      : fd_(std::move(fd)), base_(base), ranks_(ranks), part_bytes_(part_bytes) {}

  const Fd fd_;
  std::byte* const base_;
  const int ranks_;
  const size_t part_bytes_;
};

// Called by all ranks of `mesh` at once, with the same arguments, before anything else is sent on
// its data connections. All get memory, or all get null (in the log of rank 0: why). Ranks are on
// one host when they reach each other over an abstract Unix socket: they share the kernel and its
// network namespace. `required`: that one cannot is an error on all ranks, naming it.
StatusOr<std::shared_ptr<SharedMemory>> ShareMemory(const Mesh& mesh, size_t part_bytes,
                                                    bool required, Time deadline);

}  // namespace tandem
