// Chooses settings by trials (a coordinate search). Tries one group of settings after another, and
// compares each alternative with the current settings. Each round measures the alternatives and the
// current settings, so that other load on the machine affects all measurements.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "trainer/config/effective_job.h"

namespace tandem::trainer {

// A group of alternative settings. The tuner chooses at most one alternative.
struct Tunable {
  std::string what;               // name of the group for the user, for example "threads"
  std::vector<Settings> choices;  // one or more alternatives to the current settings
};

// The result of a trial.
struct TrialResult {
  double seconds = 0;   // duration of a step in seconds
  std::string skipped;  // why the trial could not run; empty: the trial ran
};
// Runs some steps with `settings`. An error ends the search.
using Trial = std::function<StatusOr<TrialResult>(const Settings& settings)>;

struct TunerOptions {
  int rounds = 3;
  // The largest accepted quotient of two step times: of a choice, and of the current settings. The
  // tuner accepts a choice if the median of the rounds is below this limit, and if the choice is
  // faster in every round. A choice that is not faster in one round is not measured again.
  double worth = 0.97;
  // Receives a line for each measurement and decision.
  std::function<void(const std::string& line)> tell;
};

// Returns the chosen settings of all groups. An empty list: no setting changes. Equal trial results
// give equal choices. Returns the first error of `trial`.
StatusOr<Settings> Tune(std::span<const Tunable> tunables, const Trial& trial,
                        const TunerOptions& options);

// Returns the settings as text, for example "threads=1, amp=true".
std::string ToString(const Settings& settings);

}  // namespace tandem::trainer
