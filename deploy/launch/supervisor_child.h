// A process that a supervisor has started. Internal to it.
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
  std::vector<OutputChannel> output;  // of the trainer that is shown
  bool seen_end = false;
  bool stuck = false;  // had to be killed
  bool here = false;   // said that it had joined the job
  Duration silent{};   // it was killed after this time without an answer; 0: it was not
  Time told_wait{};    // when people were told last that others wait for it
  bool member = true;  // of an elastic job's world; else it has yet to say that it is ready
};

}  // namespace tandem::deploy
