// Times whole training steps of a program (forward, backward, update) on data in memory, and
// exports what a peer needs to run the same steps.
#pragma once

#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"
#include "tests/bench/report.h"

namespace tandem {
class DistributedStrategy;
}

namespace tandem::bench {

// A forward program with a loss. Data variables that are f32 get random values, "label" (i64) its
// classes in turn, "ids" (i64 [batch, columns]) random ids, each column from a separate part of [0,
// ids).
struct TrainingCase {
  Program program;
  int64_t classes = 0;
  int64_t ids = 0;
  OptimizerSpec optimizer = {"momentum", {{"mu", 0.9}}};
  double learning_rate = 0;
  int chunk_steps = 50;  // steps between two readings of the clock
  // Its passes run, as in a job in local mode; nullptr: none.
  const DistributedStrategy* strategy = nullptr;
};

// Trains on one constant batch. The time is the median over chunks of steps. Before each chunk,
// parameters and slots are reset to their initial values. So every chunk trains the same young
// network, and none has the denormals of a converged one. The report: us_per_step, samples_per_s,
// us_per_step_min, losses (of the first check_steps steps), flops_per_step, sgemm_gflops (of the
// machine, same threads), ops, arena_bytes, kernels.
//
// With export_dir: `manifest.txt`, one line "role name dtype dims file" per tensor (role: param, in
// order of declaration, or data; dims joined by commas), "option name value" for the rest, and one
// file of raw little-endian elements each.
StatusOr<Report> RunTraining(TrainingCase training, const RunOptions& options);

}  // namespace tandem::bench
