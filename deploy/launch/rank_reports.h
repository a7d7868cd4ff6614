// What the processes of a job tell the launcher through a FIFO (common/base/launcher_words.h).
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem::deploy {

// A process as the words call it: "trainer", "pserver", "caller", and its number.
struct NamedProcess {
  std::string kind;
  int number = 0;
};

struct ProcessWait {
  NamedProcess who, whom;
  Duration waited{}, limit{}, start_limit{};  // as in LauncherWait
};

struct RankReports {
  std::vector<ProcessWait> waits;
  std::vector<NamedProcess> here;
  std::vector<int> ready;  // trainers
};

class RankReportFifo {
 public:
  // Makes the FIFO, for this user alone; what had its name is removed.
  Status Open(const std::string& path);
  ~RankReportFifo();

  int fd() const { return fifo_.get(); }  // readable when there is news; -1: not opened
  // What was said since the last call. Never blocks. Lines that make no sense are left out.
  RankReports Read();

 private:
  std::string path_;
  Fd fifo_;
  std::string rest_;  // of a line whose end has not come yet
};

}  // namespace tandem::deploy
