// Runs a job with a knob at its default and changed, in turns.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/cli/knob_bench/knob_bench.h"

namespace tandem::deploy {

struct KnobBenchOptions {
  std::string dir;                       // jobs and logs go there
  std::string job;                       // file of the user's own job; empty: a network
  std::string network;                   // instead of the rows' own; empty: those
  double length = 1;                     // of a run, to what its network has
  int rounds = 3;                        // both settings once each
  std::string pserver_bin, trainer_bin;  // empty: beside this program
};

// One run of a job.
struct KnobRun {
  double step_seconds = 0;         // mean, without the first quarter of the steps
  double peak_bytes = 0;           // largest resident memory of trainer 0
  std::map<int64_t, double> loss;  // of trainer 0 by step, where it was fetched
  std::map<std::string, double> counts;

  double Count(const std::string& name) const;  // 0 when there is none of that name
};
// What a trainer wrote (tandem-trainer --result_json). NOT_FOUND, or DATA_LOSS when it is none.
StatusOr<KnobRun> ReadKnobRun(const std::string& path);

inline constexpr int64_t kComparedSteps = 30;

struct KnobResult {
  const KnobBench* row = nullptr;
  std::string default_value;
  std::string network;          // or the path of the job
  int steps = 0;                // of a run
  bool own_network = false;     // the row's, where its counter has to move
  Status status;                // not OK: it could not be run, and the rest is empty
  KnobRun at_default, changed;  // of the last round
  std::vector<double> ratios;   // changed to default in time, one a round

  bool CounterMoved() const;
  // At every step that both have.
  bool SameLosses() const;
  // Largest difference over the first kComparedSteps steps, relative to the largest loss there:
  // later on, what begins as a rounding has grown in any training.
  double LossDifference() const;
  // What is wrong: it failed, the losses differ by more than the row allows, the counter stands
  // still on the row's own network; "" when nothing is.
  std::string Problem() const;
};

// `progress` is told what is being run: "round 2 of 3, changed". CANCELLED when a signal ended a
// run; what else goes wrong with a job is in the result.
StatusOr<KnobResult> BenchKnob(const KnobBench& row, const KnobBenchOptions& options,
                               const std::function<void(const std::string&)>& progress);

}  // namespace tandem::deploy
