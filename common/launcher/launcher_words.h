// Reports from a process of a job to its tandemrun: one line each, through a FIFO in the job's log
// directory (deploy/launch/rank_reports.h reads it):
//   waits KIND NUMBER KIND NUMBER MS LIMIT_MS START_LIMIT_MS    the first waits for the second
//   here KIND NUMBER                                            the process has joined the job
//   ready RANK                                                  this trainer may join
// KIND is trainer, pserver or caller; a caller is a trainer by its number among the callers of a
// pserver. No report blocks. A report is lost if tandemrun does not read the FIFO.
#pragma once

#include <string>

#include "common/base/clock.h"

namespace tandem {

// One process waits for another. Both names are as in the reports: "trainer 1", "pserver 0".
struct LauncherWait {
  std::string who, whom;
  Duration waited{};
  // Times without a reply after which a process counts as hanging: after it has joined, and while
  // it starts.
  Duration limit{}, start_limit{};
};

void TellWait(const std::string& fifo, const LauncherWait& wait);
// Reports that "trainer 1" is connected to all others, or that "pserver 0" listens.
void TellHere(const std::string& fifo, const std::string& who);
// Reports that `rank`, which is not in the world of its elastic job, can join from now on.
void TellReady(const std::string& fifo, int rank);

}  // namespace tandem
