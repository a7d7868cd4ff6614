#include "common/launcher/launcher_words.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_format.h"
#include "common/os/fd.h"

namespace tandem {
namespace {

void Tell(const std::string& fifo, const std::string& line) {
  const Fd fd(::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return;
  // write() writes a line of at most PIPE_BUF bytes completely or not at all (pipe(7)).
  [[maybe_unused]] const ssize_t n = ::write(fd.get(), line.data(), line.size());
}

}  // namespace

void TellWait(const std::string& fifo, const LauncherWait& wait) {
  Tell(fifo, absl::StrFormat("waits %s %s %d %d %d\n", wait.who, wait.whom, Millis(wait.waited),
                             Millis(wait.limit), Millis(wait.start_limit)));
}

void TellHere(const std::string& fifo, const std::string& who) {
  Tell(fifo, absl::StrFormat("here %s\n", who));
}

void TellReady(const std::string& fifo, int rank) {
  Tell(fifo, absl::StrFormat("ready %d\n", rank));
}

}  // namespace tandem
