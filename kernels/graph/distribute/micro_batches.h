// Writes a pipeline step as the program of one rank. The program contains the operators of the
// rank's stage once per micro batch, in the order of a schedule. Sends and receives are between
// them. Executor and memory plan therefore need no knowledge of pipelines. An activation lives from
// its forward to its backward. A bound on the micro batches between the two bounds the memory.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/distribute/sections.h"
#include "kernels/graph/program.h"

namespace tandem {

// A row of the schedule: forward or backward of one micro batch.
struct PipelineRow {
  bool forward = true;
  int micro = 0;
  bool operator==(const PipelineRow&) const = default;
};
// Returns the schedule 1F1B (PipeDream-Flush; Narayanan et al., ICML 2021). Stage s of n first runs
// n - 1 - s forwards, then alternates forward and backward, then runs the remaining backwards. At
// most n - s micro batches are between their forward and their backward.
std::vector<PipelineRow> OneForwardOneBackward(int section, int sections, int micro_batches);

// Returns the share of the step that a rank waits if all rows take equally long: (sections - 1) /
// (micro_batches + sections - 1).
double BubbleShare(int sections, int micro_batches);

// One rank of a pipeline. A replica has one rank per stage; the ranks of consecutive stages are
// `apart` apart. All ranks of a replica work on the same part of the batch. Stage 0 may have
// several consecutive ranks; each then runs one micro batch of the next stage.
struct PipelineRank {
  int section = 0, sections = 1;
  int first_rank = 0;  // the rank of stage 0; if there are several, the first
  int micro_batches = 1;
  int apart = 1;
  bool rank_each = false;  // each micro batch comes from a different rank of stage 0

  // Returns the rank of another stage.
  int RankOf(int other, int micro) const {
    return first_rank + other * apart + (rank_each ? micro : 0);
  }
};

// Returns the name of a variable in micro batch `micro` of several: "x@MICRO3".
std::string MicroName(const std::string& var, int micro);
std::string WholeName(const std::string& var);  // "x"

struct SectionProgram {
  Program program;
  std::vector<ParamGrad> grads;  // summed over the micro batches, in order of readiness
  std::vector<Op> resets;        // run at the end of the step
};
// Returns the program of this rank for `whole`. `whole` has backward and is bound to the size of
// one micro batch. The data variables of the result hold all micro batches. Gradients are
// accumulated as in batch_merge_repeats. Loss and metrics are means over the micro batches. The
// last stage of the first replica sends them to rank 0; no other rank has them.
StatusOr<SectionProgram> UnrollSection(const Program& whole, const std::vector<ParamGrad>& grads,
                                       const PipelineRank& rank);

// Returns the rank's program for one batch of a forward program. Loss and metrics are sent to stage
// 0.
StatusOr<Program> ForwardSection(const Program& forward, const PipelineRank& rank);

}  // namespace tandem
