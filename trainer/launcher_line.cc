#include "trainer/launcher_line.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_format.h"
#include "common/base/fd.h"

namespace tandem {

namespace {

void Tell(const std::string& fifo, const std::string& line) {
  const Fd fd(::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return;
  // Short lines are written whole or not at all (PIPE_BUF, pipe(7)).
  [[maybe_unused]] const ssize_t n = ::write(fd.get(), line.data(), line.size());
}

}  // namespace

void TellSilent(const std::string& fifo, int rank, Duration waited) {
  Tell(fifo, absl::StrFormat("silent %d %d\n", rank, Millis(waited)));
}

void TellReady(const std::string& fifo, int rank) {
  Tell(fifo, absl::StrFormat("ready %d\n", rank));
}

}  // namespace tandem
