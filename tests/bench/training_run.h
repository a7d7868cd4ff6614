// Times whole training steps of a program (forward, backward, update) on data in memory. Exports
// the data that a peer needs to run the same steps.
#pragma once

#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"
#include "tests/bench/report.h"

namespace tandem {
class DistributedStrategy;
}

namespace tandem::bench {

// A forward program with a loss. Its f32 data variables get random values. "label" (i64) gets class
// numbers in a fixed pattern. "ids" (i64 [batch, columns]) gets random ids; each column draws them
// from a separate part of [0, ids).
struct TrainingCase {
  graph::Program program;
  int64_t classes = 0;
  int64_t ids = 0;
  graph::OptimizerSpec optimizer = {"momentum", {{"mu", 0.9}}};
  double learning_rate = 0;
  int chunk_steps = 50;  // number of steps per time measurement
  // Whether each measured step copies the data and the learning rate to the plan, and the loss from
  // it, as a call of Executor.run from Python does. false: the data stay in the plan.
  bool fed = false;
  // The passes of this strategy change the program, as in a job in local mode. nullptr: no passes.
  const DistributedStrategy* strategy = nullptr;
};

// Trains on one constant batch. The reported time is the median over chunks of steps. Before each
// chunk, parameters and slots are reset to their initial values. Thus every chunk trains an
// untrained network, because a converged network has denormal numbers, which are slow. The report
// has the fields us_per_step, samples_per_s, us_per_step_min, losses (of the first check_steps
// steps), flops_per_step, sgemm_gflops (of the machine, same threads), ops, arena_bytes and
// kernels.
//
// If export_dir is set, writes `manifest.txt` and one file of raw little-endian elements per
// tensor. The manifest has a line "role name dtype dims file" per tensor. The role is param (in
// order of declaration) or data, and commas separate the dims. All other lines are "option name
// value".
StatusOr<Report> RunTraining(TrainingCase training, const RunOptions& options);

}  // namespace tandem::bench
