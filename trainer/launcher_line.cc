#include "trainer/launcher_line.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_format.h"
#include "common/base/fd.h"

namespace tandem {

void TellSilent(const std::string& fifo, int rank, Duration waited) {
  const Fd fd(::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return;
  const std::string line = absl::StrFormat("silent %d %d\n", rank, Millis(waited));
  // Short lines are written whole or not at all (PIPE_BUF, pipe(7)).
  [[maybe_unused]] const ssize_t n = ::write(fd.get(), line.data(), line.size());
}

}  // namespace tandem
