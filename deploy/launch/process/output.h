// The output of a child: shown on the launcher's terminal and written to its log.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/process/log_file.h"

namespace tandem::deploy {

// Copies one stream of a child (stdout or stderr) to a log file and to `echo_fd`. If echo_fd is a
// terminal, the child gets a pseudo-terminal of the same size, so that its progress bar works. The
// log gets whole lines; for a line redrawn with carriage returns, its last state. Never blocks:
// while the terminal accepts nothing, nothing is read from the child. Not thread-safe.
class OutputChannel {
 public:
  // `log` and `echo_fd` are not owned and must outlive this object. echo_fd -1: log only.
  static StatusOr<OutputChannel> Open(int echo_fd, LogFile* log);

  OutputChannel(OutputChannel&&) = default;

  int child_fd() const { return child_end_.get(); }  // the child writes to it
  void CloseChildEnd() { child_end_.Reset(); }       // call it once the child has inherited it
  // The descriptors to poll, or -1: the child's output, and the terminal if it must become
  // writable.
  int read_fd() const { return pending_.empty() ? read_end_.get() : -1; }
  int write_fd() const { return pending_.empty() ? -1 : echo_fd_; }

  void OnReadable();
  void OnWritable();
  // Changes echo_fd; -1: none. Discards output that the terminal has not accepted yet if it is -1.
  void ShowOn(int echo_fd);
  // Call it after the child has ended: reads the rest of the output and ends the log's last line.
  void Drain();
  // Sets the size of the pseudo-terminal to that of the terminal.
  void CopyWindowSize();

 private:
  OutputChannel() = default;
  bool ReadSome();  // false: nothing to read now
  void AppendToLog(const char* data, size_t size);
  void EndLogLine();

  int echo_fd_ = -1;
  LogFile* log_ = nullptr;
  bool pseudo_terminal_ = false;
  Fd read_end_, child_end_;
  std::string pending_;  // read, but not yet accepted by the terminal
  std::string line_;     // the log's current line so far
};

// The last `lines_max` lines of a text file, without line ends; empty: it cannot be read. Reads
// only the last 64 KiB.
std::vector<std::string> LastLines(const std::string& path, size_t lines_max);

}  // namespace tandem::deploy
