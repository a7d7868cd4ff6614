// A process that a supervisor has started. Internal to Supervisor.
#pragma once

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/log_file.h"
#include "deploy/launch/supervisor.h"

namespace tandem::deploy {

struct Supervisor::Child {
  const ProcessPlan* plan = nullptr;
  std::optional<Process> process;
  Time started = SteadyNow();
  std::optional<LogFile> log;
  std::vector<OutputChannel> output;  // used if the terminal shows this trainer
  bool seen_end = false;
  bool stuck = false;  // had to be killed
  bool here = false;   // reported that it had joined the job
  Duration silent{};   // killed after this time without a reply; 0: not for this reason
  Time told_wait{};    // time of the last warning that others wait for it
  bool member = true;  // member of an elastic job's world; false: it has not reported ready yet
};

}  // namespace tandem::deploy
