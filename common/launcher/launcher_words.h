// Reports from a process of a job to its tandemrun, as lines of text in a FIFO. The FIFO is in the
// job's log directory; deploy/launch/rank_reports.h reads it. The reports are:
//   waits KIND NUMBER KIND NUMBER MS LIMIT_MS START_LIMIT_MS    one process waits for another
//   here KIND NUMBER                                            the process has joined the job
//   ready RANK                                                  this trainer can join the job
// `tandem promote` writes `promote RANK` into the same FIFO (deploy/launch/rank_reports.h).
// KIND is trainer, pserver or caller. A caller is a trainer; its NUMBER is its index among the
// callers of a pserver. A report never blocks. A report is lost if tandemrun does not read the
// FIFO.
#pragma once

#include <string>

#include "common/base/clock.h"

namespace tandem {

// A report that process `who` waits for process `whom`. Example of a name: "trainer 1", "pserver
// 0".
struct LauncherWait {
  std::string who, whom;
  Duration waited{};
  // Time limits for a reply of `whom`. After the limit, `whom` is treated as hanging. `limit`
  // applies if `whom` has joined the job, `start_limit` if it has not joined yet.
  Duration limit{}, start_limit{};
};

void TellWait(const std::string& fifo, const LauncherWait& wait);
// Reports that process `who` has joined the job. A trainer has joined when it is connected to all
// other trainers. A pserver has joined when it listens.
void TellHere(const std::string& fifo, const std::string& who);
// Reports that `rank`, which is not yet a member of its elastic job, can join from now on.
void TellReady(const std::string& fifo, int rank);

}  // namespace tandem
