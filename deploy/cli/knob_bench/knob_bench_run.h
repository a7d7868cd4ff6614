// Runs a job with a knob at its default and changed, alternately.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/cli/knob_bench/knob_bench.h"

namespace tandem::deploy {

struct KnobBenchOptions {
  std::string dir;                       // directory for jobs and logs
  std::string job;                       // file of the user's job; empty: use a network
  std::string network;                   // replaces the rows' networks; empty: does not
  double length = 1;                     // factor on the network's number of steps
  int rounds = 3;                        // each round runs both settings once
  std::string pserver_bin, trainer_bin;  // empty: in this program's directory
};

// One run of a job.
struct KnobRun {
  double step_seconds = 0;         // mean, without the first quarter of the steps
  double peak_bytes = 0;           // largest resident memory of trainer 0
  std::map<int64_t, double> loss;  // losses of trainer 0 by step, if fetched
  std::map<std::string, double> counts;

  double Count(const std::string& name) const;  // 0: no such name
};
// Reads a trainer's result (tandem-trainer --result_json). NOT_FOUND: no such file. DATA_LOSS: not
// a result.
StatusOr<KnobRun> ReadKnobRun(const std::string& path);

inline constexpr int64_t kComparedSteps = 30;

struct KnobResult {
  const KnobBench* row = nullptr;
  std::string default_value;
  std::string network;          // or the path of the job
  int steps = 0;                // per run
  bool own_network = false;     // it is the row's network, on which the counter must change
  Status status;                // not OK: it could not run, and the other fields are empty
  KnobRun at_default, changed;  // runs of the last round
  std::vector<double> ratios;   // time of changed / default, one per round

  bool CounterMoved() const;
  // Whether the losses are equal at every step that both runs have.
  bool SameLosses() const;
  // Largest difference over the first kComparedSteps steps, relative to the largest loss there.
  // Later differences are not used: in any training, rounding errors grow with time.
  double LossDifference() const;
  // The problem: the run failed, the losses differ by more than the row allows, or the counter did
  // not change on the row's own network; "": none.
  std::string Problem() const;
};

// `progress` receives the current run: "round 2 of 3, changed". CANCELLED: a signal ended a run.
// Other failures of a job are in the result.
StatusOr<KnobResult> BenchKnob(const KnobBench& row, const KnobBenchOptions& options,
                               const std::function<void(const std::string&)>& progress);

}  // namespace tandem::deploy
