#include "deploy/launch/process/output.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "absl/strings/str_split.h"

#include "common/base/require.h"
#include "common/os/host_limits.h"

namespace tandem::deploy {
namespace {

constexpr size_t kReadBytes = 4096;  // bytes that a pipe accepts when poll() reports it as writable
constexpr size_t kLogLineBytesMax = 8192;  // maximum length of a log line; longer lines are split
constexpr size_t kDrainBytesMax = 1 << 20;
constexpr std::streamoff kTailBytes = 64 << 10;

Status OpenPseudoTerminal(Fd& ours, Fd& theirs) {
  int master = -1, slave = -1;
  if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) {
    return SystemError("cannot create a terminal for the output", errno);
  }
  ours.Reset(master);
  theirs.Reset(slave);
  termios settings{};
  if (tcgetattr(slave, &settings) == 0) {
    // No output processing: the real terminal already converts line ends.
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    tcsetattr(slave, TCSANOW, &settings);
  }
  fcntl(slave, F_SETFD, FD_CLOEXEC);
  return OkStatus();
}

}  // namespace

StatusOr<OutputChannel> OutputChannel::Open(int echo_fd, LogFile* log) {
  OutputChannel channel;
  channel.echo_fd_ = echo_fd;
  channel.log_ = log;
  channel.pseudo_terminal_ = echo_fd >= 0 && isatty(echo_fd) == 1;
  if (channel.pseudo_terminal_) {
    TD_RETURN_IF_ERROR(OpenPseudoTerminal(channel.read_end_, channel.child_end_));
    channel.CopyWindowSize();
  } else {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("cannot create a pipe", errno);
    channel.read_end_.Reset(ends[0]);
    channel.child_end_.Reset(ends[1]);
  }
  fcntl(channel.read_end_.get(), F_SETFD, FD_CLOEXEC);
  fcntl(channel.read_end_.get(), F_SETFL, O_NONBLOCK);
  return channel;
}

void OutputChannel::CopyWindowSize() {
  winsize size{};
  if (pseudo_terminal_ && ioctl(echo_fd_, TIOCGWINSZ, &size) == 0) {
    ioctl(read_end_.get(), TIOCSWINSZ, &size);
  }
}

bool OutputChannel::ReadSome() {
  char buffer[kReadBytes];
  const ssize_t n = read(read_end_.get(), buffer, sizeof(buffer));
  if (n > 0) {
    AppendToLog(buffer, static_cast<size_t>(n));
    if (echo_fd_ >= 0) pending_.append(buffer, static_cast<size_t>(n));
    return true;
  }
  // read() has reached the end of the stream. A pseudo-terminal returns EIO after its last writer
  // has closed it.
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) read_end_.Reset();
  return false;
}

void OutputChannel::ShowOn(int echo_fd) {
  if (echo_fd < 0) pending_.clear();
  echo_fd_ = echo_fd;
}

void OutputChannel::OnReadable() { ReadSome(); }

void OutputChannel::OnWritable() {
  const size_t size = std::min(pending_.size(), kReadBytes);
  const ssize_t n = write(echo_fd_, pending_.data(), size);
  if (n > 0) {
    pending_.erase(0, static_cast<size_t>(n));
  } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
    // EPIPE: the reader of the terminal has closed it. From now on the channel writes only the log.
    pending_.clear();
    echo_fd_ = -1;
  }
}

void OutputChannel::Drain() {
  size_t taken = 0;
  while (read_end_.get() >= 0 && taken < kDrainBytesMax && ReadSome()) taken += kReadBytes;
  if (!line_.empty()) EndLogLine();
}

void OutputChannel::AppendToLog(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      EndLogLine();
    } else {
      line_ += data[i];
      if (line_.size() >= kLogLineBytesMax) EndLogLine();
    }
  }
}

void OutputChannel::EndLogLine() {
  while (!line_.empty() && line_.back() == '\r') line_.pop_back();
  const size_t last_redraw = line_.rfind('\r');
  if (last_redraw != std::string::npos) line_.erase(0, last_redraw + 1);
  line_ += '\n';
  log_->Append(line_);
  line_.clear();
}

std::vector<std::string> LastLines(const std::string& path, size_t lines_max) {
  TD_REQUIRE(lines_max > 0);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  // An iterator over the buffer of the stream would throw an exception if a read fails.
  std::string text(static_cast<size_t>(std::min(size, kTailBytes)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > lines_max) lines.erase(lines.begin(), lines.end() - lines_max);
  return lines;
}

}  // namespace tandem::deploy
