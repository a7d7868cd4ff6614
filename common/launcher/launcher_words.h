// Reports from a process of a job to its tandemrun, as lines of text in a FIFO. The FIFO is in the
// job's log directory; deploy/launch/rank_reports.h reads it. The reports are:
//   waits KIND NUMBER KIND NUMBER MS LIMIT_MS START_LIMIT_MS    the first waits for the second
//   here KIND NUMBER                                            the process has joined the job
//   ready RANK                                                  this trainer may join
// KIND is trainer, pserver or caller. A caller is a trainer; its NUMBER is its index among the
// callers of a pserver. No report blocks. It is lost if tandemrun does not read the FIFO.
#pragma once

#include <string>

#include "common/base/clock.h"

namespace tandem {

// Process `who` waits for process `whom`. Names are as in the reports: "trainer 1", "pserver 0".
struct LauncherWait {
  std::string who, whom;
  Duration waited{};
  // A process without a reply for this time is treated as hanging: `limit` after it has joined the
  // job, `start_limit` before.
  Duration limit{}, start_limit{};
};

void TellWait(const std::string& fifo, const LauncherWait& wait);
// Reports that process `who` has joined: a trainer after it is connected to all other trainers, a
// pserver after it listens.
void TellHere(const std::string& fifo, const std::string& who);
// Reports that `rank`, which is not yet a member of its elastic job, can join from now on.
void TellReady(const std::string& fifo, int rank);

}  // namespace tandem
