#include "common/shm/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/require.h"

namespace tandem {
namespace {

int SealsOf(SealedMemory::Others others) {
  const int size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  // F_SEAL_FUTURE_WRITE: existing mappings stay writable, but all later mappings are read-only.
  return others == SealedMemory::Others::kRead ? size | F_SEAL_FUTURE_WRITE : size;
}

StatusOr<std::span<std::byte>> MapAll(int fd, size_t bytes, int protection) {
  void* const base = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    return Unavailable("cannot map %d bytes of shared memory: %s", bytes, ErrnoText(errno));
  }
  ::madvise(base, bytes, MADV_DONTDUMP);
  return std::span(static_cast<std::byte*>(base), bytes);
}

}  // namespace

StatusOr<std::shared_ptr<SealedMemory>> SealedMemory::Create(const char* name, size_t bytes,
                                                             Others others) {
  TD_REQUIRE(bytes > 0 && bytes % static_cast<size_t>(::sysconf(_SC_PAGESIZE)) == 0);
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Unavailable("cannot create shared memory: %s", ErrnoText(errno));
  }
  TD_ASSIGN_OR_RETURN(const auto mapped, MapAll(fd.get(), bytes, PROT_READ | PROT_WRITE));
  const std::shared_ptr<SealedMemory> memory(new SealedMemory(std::move(fd), mapped));
  if (::fcntl(memory->fd(), F_ADD_SEALS, SealsOf(others)) != 0) {
    return Unavailable("cannot seal shared memory: %s", ErrnoText(errno));
  }
  return memory;
}

StatusOr<std::shared_ptr<SealedMemory>> SealedMemory::Map(Fd fd, size_t bytes, Others others) {
  struct stat about = {};
  if (::fstat(fd.get(), &about) != 0) {
    return PermissionDenied("cannot read the size of the received shared memory: %s",
                            ErrnoText(errno));
  }
  if (static_cast<size_t>(about.st_size) != bytes) {
    return PermissionDenied("the received shared memory has %d bytes, expected %d", about.st_size,
                            bytes);
  }
  if (::fcntl(fd.get(), F_GET_SEALS) != SealsOf(others)) {
    return PermissionDenied("the received shared memory does not have the expected seals");
  }
  const int protection = others == Others::kWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  TD_ASSIGN_OR_RETURN(const auto mapped, MapAll(fd.get(), bytes, protection));
  return std::shared_ptr<SealedMemory>(new SealedMemory(std::move(fd), mapped));
}

SealedMemory::~SealedMemory() { ::munmap(bytes_.data(), bytes_.size()); }

}  // namespace tandem
