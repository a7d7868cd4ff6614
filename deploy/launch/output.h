// The output of a child that is shown on the launcher's terminal as well as written to its log.
#pragma once

#include <string>
#include <vector>

#include "common/base/fd.h"
#include "common/base/status.h"
#include "deploy/launch/log_file.h"

namespace tandem::deploy {

// Carries one stream of a child (its stdout or stderr) to a log file and to `echo_fd`. Where
// echo_fd is a terminal the child gets a pseudo-terminal of the same size, so that its progress bar
// works. The log gets whole lines; of a line redrawn with carriage returns, its last state. Never
// blocks: while the terminal takes nothing, nothing is read from the child. Not thread-safe.
class OutputChannel {
 public:
  // `log` and `echo_fd` are not owned and must outlive this. echo_fd -1: log only.
  static StatusOr<OutputChannel> Open(int echo_fd, LogFile* log);

  OutputChannel(OutputChannel&&) = default;

  int child_fd() const { return child_end_.get(); }  // what the child writes to
  void CloseChildEnd() { child_end_.Reset(); }       // once the child has it
  // What to wait for, or -1: the child's output, and the terminal's readiness.
  int read_fd() const { return pending_.empty() ? read_end_.get() : -1; }
  int write_fd() const { return pending_.empty() ? -1 : echo_fd_; }

  void OnReadable();
  void OnWritable();
  // From now on it is shown there; -1: nowhere, and what was not taken yet is not shown.
  void ShowOn(int echo_fd);
  // The child has ended: takes what is still there and ends the last line of the log.
  void Drain();
  // Gives the pseudo-terminal the size of the terminal.
  void CopyWindowSize();

 private:
  OutputChannel() = default;
  bool ReadSome();  // false when there is nothing (now)
  void AppendToLog(const char* data, size_t size);
  void EndLogLine();

  int echo_fd_ = -1;
  LogFile* log_ = nullptr;
  bool pseudo_terminal_ = false;
  Fd read_end_, child_end_;
  std::string pending_;  // read, but not yet taken by the terminal
  std::string line_;     // the log's line so far
};

// The last `lines_max` lines of a text file, without line ends; empty when it cannot be read. Looks
// at the last 64 KiB only.
std::vector<std::string> LastLines(const std::string& path, size_t lines_max);

}  // namespace tandem::deploy
