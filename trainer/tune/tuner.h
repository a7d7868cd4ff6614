// Chooses settings by trying them: one group after another, each value against what holds so far
// (a coordinate search), in rounds that alternate, so that what else the machine does hits both.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "trainer/job/job.h"

namespace tandem {

// Settings of which one at most is chosen.
struct Tunable {
  std::string what;               // for people: "threads"
  std::vector<Settings> choices;  // beside what holds: at least one
};

// What came of a trial.
struct TrialResult {
  double seconds = 0;   // of a step
  std::string skipped;  // not empty: it could not be tried, and why
};
// Some steps with `settings`. An error ends the search.
using Trial = std::function<StatusOr<TrialResult>(const Settings& settings)>;

struct TunerOptions {
  int rounds = 3;
  // A choice is taken when its step takes less than this share of the one that holds, in the median
  // of the rounds. One that is not faster in a round is not tried again.
  double worth = 0.97;
  std::function<void(const std::string& line)> tell;  // what was measured and decided
};

// What was chosen of all tunables; empty: everything stays. The same trials give the same choice.
StatusOr<Settings> Tune(std::span<const Tunable> tunables, const Trial& trial,
                        const TunerOptions& options);

// "threads=1, amp=true".
std::string ToString(const Settings& settings);

}  // namespace tandem
