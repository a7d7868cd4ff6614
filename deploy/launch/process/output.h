// The output of a child process, which the launcher copies to its terminal and to the child's log.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/process/log_file.h"

namespace tandem::deploy {

// Copies one stream of a child (stdout or stderr) to a log file and to `echo_fd`. If echo_fd is a
// terminal, the child gets a pseudo-terminal of the same size, so that its progress bar works. The
// log gets complete lines; if the child redraws a line, the log gets only the last state of the
// line. Never blocks: while the terminal accepts no output, the channel reads no output from the
// child. Not thread-safe.
class OutputChannel {
 public:
  // `log` and `echo_fd` are not owned and must outlive this object. `echo_fd` -1: log only.
  static StatusOr<OutputChannel> Open(int echo_fd, LogFile* log);

  OutputChannel(OutputChannel&&) = default;

  int child_fd() const { return child_end_.get(); }  // the descriptor to which the child writes
  // Closes this process's copy of the child's descriptor. The caller calls CloseChildEnd after the
  // child has inherited the descriptor.
  void CloseChildEnd() { child_end_.Reset(); }
  // Descriptors to poll; -1: none. read_fd: output of the child. write_fd: the terminal, if output
  // waits for the terminal.
  int read_fd() const { return pending_.empty() ? read_end_.get() : -1; }
  int write_fd() const { return pending_.empty() ? -1 : echo_fd_; }

  void OnReadable();
  void OnWritable();
  // Changes echo_fd. -1: shows no output from now on, and discards output that the terminal has not
  // accepted.
  void ShowOn(int echo_fd);
  // Reads the remaining output and ends the log's last line. The caller calls Drain after the child
  // has ended.
  void Drain();
  // Sets the size of the pseudo-terminal to that of the terminal.
  void CopyWindowSize();

 private:
  OutputChannel() = default;
  bool ReadSome();  // reads some output; returns false if no output is available now
  void AppendToLog(const char* data, size_t size);
  void EndLogLine();

  int echo_fd_ = -1;
  LogFile* log_ = nullptr;
  bool pseudo_terminal_ = false;
  Fd read_end_, child_end_;
  std::string pending_;  // output that was read but that the terminal has not accepted yet
  std::string line_;     // beginning of the log's current line
};

// Returns the last `lines_max` lines of a text file, without line ends. Reads only the last 64 KiB
// of the file. The result is empty if the file cannot be read.
std::vector<std::string> LastLines(const std::string& path, size_t lines_max);

}  // namespace tandem::deploy
