#include "collective/secure/moved.h"

#include <cerrno>

namespace tandem::collective {

Moved FailedMove(int error) {
  const bool busy = error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
  return busy ? Moved{} : Moved{.end = Moved::End::kBroken, .error = error};
}

}  // namespace tandem::collective
