// What a process of a job tells the tandemrun that started it, a line each, through a FIFO of the
// job's log folder (deploy/launch/rank_reports.h reads it):
//   waits KIND NUMBER KIND NUMBER MS LIMIT_MS START_LIMIT_MS    the first waits for the second
//   here KIND NUMBER                                            it has joined the job
//   ready RANK                                                  this trainer may join
// KIND is trainer, pserver, or caller: a trainer by its number among the callers of a pserver.
// No word blocks, and none is kept for a tandemrun that does not listen.
#pragma once

#include <string>

#include "common/base/clock.h"

namespace tandem {

// "trainer 1" waits for "pserver 0", as both are called there.
struct LauncherWait {
  std::string who, whom;
  Duration waited{};
  // A process hangs that has not answered for this time: one that joined the job, one that starts.
  Duration limit{}, start_limit{};
};

void TellWait(const std::string& fifo, const LauncherWait& wait);
// "trainer 1" is connected to all others; "pserver 0" listens.
void TellHere(const std::string& fifo, const std::string& who);
// `rank`, which is not in the world of its elastic job, can take part from now on.
void TellReady(const std::string& fifo, int rank);

}  // namespace tandem
