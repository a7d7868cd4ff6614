// Memory that processes of one host share: an unnamed object (memfd_create), passed as a file
// descriptor (unix_socket.h). It is sealed so that no process can shrink it (an access beyond the
// end of a shrunken file is a SIGBUS).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// A mapping of the whole object, which it keeps alive. A page uses memory only after it was
// touched.
class SealedMemory {
 public:
  // The access of processes that receive the descriptor.
  enum class Others : uint8_t { kWrite, kRead };

  // REQUIRES that `bytes` is a multiple of the page size. UNAVAILABLE: the kernel provides no such
  // memory.
  static StatusOr<std::shared_ptr<SealedMemory>> Create(const char* name, size_t bytes,
                                                        Others others);
  // Maps the object of a peer. PERMISSION_DENIED: it has another size or other seals. With kRead, a
  // write to it is a SIGSEGV.
  static StatusOr<std::shared_ptr<SealedMemory>> Map(Fd fd, size_t bytes, Others others);
  ~SealedMemory();
  SealedMemory(const SealedMemory&) = delete;
  SealedMemory& operator=(const SealedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

 private:
  SealedMemory(Fd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}

  const Fd fd_;
  const std::span<std::byte> bytes_;
};

}  // namespace tandem
