// The reports of a job's processes to the launcher, through a FIFO
// (common/launcher/launcher_words.h).
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::deploy {

// A process as the reports name it: "trainer", "pserver" or "caller", and its number.
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
  // Creates the FIFO for this user only; removes an existing file of that name.
  Status Open(const std::string& path);
  ~RankReportFifo();

  int fd() const { return fifo_.get(); }  // readable if there are reports; -1: not opened
  // The reports since the last call. Never blocks. Skips malformed lines.
  RankReports Read();

 private:
  std::string path_;
  Fd fifo_;
  std::string rest_;  // an incomplete line
};

}  // namespace tandem::deploy
