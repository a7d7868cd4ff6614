// Measures a knob: runs a job with the knob's default and with the changed value, alternately.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/cli/knob_bench/knob_bench.h"

namespace tandem::deploy {

struct KnobBenchOptions {
  std::string dir;                       // directory for job files and logs
  std::string job;                       // path of the user's job file; empty: use a network
  std::string network;                   // network for all rows; empty: the network of each row
  double length = 1;                     // factor for the number of steps of a run
  int rounds = 3;                        // number of rounds; each round runs both settings once
  std::string pserver_bin, trainer_bin;  // program paths; empty: in this program's directory
};

// The result of one run of a job.
struct KnobRun {
  double step_seconds = 0;         // mean seconds of a step, without the first quarter of the steps
  double peak_bytes = 0;           // maximum resident memory of trainer 0, in bytes
  std::map<int64_t, double> loss;  // loss of trainer 0 by step; only steps with a fetched loss
  std::map<std::string, double> counts;

  // Returns the counter `name`; 0: there is no such counter.
  double Count(const std::string& name) const;
};
// Reads the result of a trainer (tandem-trainer --result_json). NOT_FOUND: there is no such file.
// DATA_LOSS: the file is not a result.
StatusOr<KnobRun> ReadKnobRun(const std::string& path);

inline constexpr int64_t kComparedSteps = 30;

struct KnobResult {
  const KnobBench* row = nullptr;
  std::string default_value;
  std::string network;          // name of the network, or path of the user's job
  int steps = 0;                // number of steps per run
  bool own_network = false;     // true: the network is the row's own, so the counter must change
  Status status;                // result of all runs; if it is not OK, the next fields are empty
  KnobRun at_default, changed;  // runs of the last round with the default and the changed value
  // One ratio per round: time with the changed value / time with the default value.
  std::vector<double> ratios;

  bool CounterMoved() const;
  // Returns whether the two runs have equal losses at every step for which both runs have a loss.
  bool SameLosses() const;
  // Returns the largest difference of losses in the first kComparedSteps steps, relative to the
  // largest of these losses. Later steps are ignored, because rounding errors grow in any training.
  double LossDifference() const;
  // Returns a text about a problem: the run failed, the losses differ by more than the row allows,
  // or the counter did not change on the row's own network. "": there is no problem.
  std::string Problem() const;
};

// Measures one knob. `progress` receives a text about the current run, such as "round 2 of 3,
// changed". CANCELLED: a signal ended a run. Any other failure of a job is in the result.
StatusOr<KnobResult> BenchKnob(const KnobBench& row, const KnobBenchOptions& options,
                               const std::function<void(const std::string&)>& progress);

}  // namespace tandem::deploy
