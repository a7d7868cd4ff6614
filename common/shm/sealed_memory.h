// Memory that processes of one host share. The memory is an unnamed object (memfd_create), whose
// file descriptor is passed between the processes (unix_socket.h). The size of the object is
// sealed, because an access beyond the end of a shrunken object would cause SIGBUS.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// A mapping of a whole shared object. The object exists at least as long as the mapping. Each page
// of the object needs memory only after the first access to the page.
class SealedMemory {
 public:
  // Access rights of the other processes, which receive the descriptor.
  enum class Others : uint8_t { kWrite, kRead };

  // Creates a shared object of `bytes` bytes, a multiple of the page size. UNAVAILABLE: the kernel
  // cannot provide the memory.
  static StatusOr<std::shared_ptr<SealedMemory>> Create(const char* name, size_t bytes,
                                                        Others others);
  // Maps the shared object of another process. With Others::kRead, a write to the mapping causes
  // SIGSEGV. PERMISSION_DENIED: the object has another size or other seals than expected.
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
