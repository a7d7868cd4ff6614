// Chooses settings by trials: one group after another, each value against the current settings (a
// coordinate search). Trials alternate in rounds, so that other load on the machine affects both.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "trainer/job/job.h"

namespace tandem::trainer {

// Alternative settings; at most one is chosen.
struct Tunable {
  std::string what;               // for the user: "threads"
  std::vector<Settings> choices;  // at least one, besides the current settings
};

// The result of a trial.
struct TrialResult {
  double seconds = 0;   // per step
  std::string skipped;  // the reason why it could not run; empty: it ran
};
// Runs some steps with `settings`. An error ends the search.
using Trial = std::function<StatusOr<TrialResult>(const Settings& settings)>;

struct TunerOptions {
  int rounds = 3;
  // A choice is accepted if its step takes less than this share of the current settings' time, in
  // the median of the rounds. A choice that is not faster in some round is not tried again.
  double worth = 0.97;
  std::function<void(const std::string& line)> tell;  // receives measurements and decisions
};

// The chosen settings of all tunables; empty: no change. The same trial results give the same
// choice.
StatusOr<Settings> Tune(std::span<const Tunable> tunables, const Trial& trial,
                        const TunerOptions& options);

// "threads=1, amp=true".
std::string ToString(const Settings& settings);

}  // namespace tandem::trainer
