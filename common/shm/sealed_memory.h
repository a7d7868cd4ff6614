// Memory that processes of one host share: an object without a name (memfd_create), handed over as
// a file descriptor (unix_socket.h), and sealed so that nobody can take it away from under another
// (a shrunken file is a SIGBUS).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem {

// A mapping of the whole object, which it keeps alive. Pages take memory once they are touched.
class SealedMemory {
 public:
  // What those can do with it to whom it is handed.
  enum class Others : uint8_t { kWrite, kRead };

  // `bytes`: a multiple of the page size. UNAVAILABLE where the kernel gives none.
  static StatusOr<std::shared_ptr<SealedMemory>> Create(const char* name, size_t bytes,
                                                        Others others);
  // What a peer made: PERMISSION_DENIED unless it has this very size and these very seals. With
  // kRead a write to it is a SIGSEGV.
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
