// Writes a training step of a pipeline as the program of one rank. The program contains the
// operators of the rank's stage once per micro batch, in the order of a schedule. The program also
// contains the sends and receives. Therefore the executor and the memory plan need not know
// pipelines. An activation stays in memory from its forward to its backward. The schedule limits
// memory, because it limits the number of micro batches whose backward has not run.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/distribute/sections.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

// One row of the schedule: the forward or the backward of one micro batch.
struct PipelineRow {
  bool forward = true;
  int micro = 0;
  bool operator==(const PipelineRow&) const = default;
};
// Returns the rows of schedule 1F1B for one stage (PipeDream-Flush; Narayanan et al., ICML 2021).
// Stage s of n first runs n - 1 - s forwards. The stage then alternates forward and backward, and
// finally runs the remaining backwards. At any time, at most n - s micro batches have run forward
// but not backward.
std::vector<PipelineRow> OneForwardOneBackward(int section, int sections, int micro_batches);

// Returns the share of the step in which a rank waits: (sections - 1) / (micro_batches + sections -
// 1). Assumes that all rows of the schedule take equally long.
double BubbleShare(int sections, int micro_batches);

// One rank of a pipeline. A replica of the model has one rank per stage; the rank numbers of
// consecutive stages differ by `apart`. All ranks of a replica work on the same part of the batch.
// Stage 0 may instead have several consecutive ranks (`rank_each`). Each of these ranks then
// computes stage 0 of one micro batch.
struct PipelineRank {
  int section = 0, sections = 1;
  int first_rank = 0;  // the rank of stage 0; if stage 0 has several ranks, the first
  int micro_batches = 1;
  int apart = 1;
  bool rank_each = false;  // true: stage 0 has one rank per micro batch

  // Returns the rank that runs stage `other` for micro batch `micro`.
  int RankOf(int other, int micro) const {
    return first_rank + other * apart + (rank_each ? micro : 0);
  }
};

// Returns the name of `var` in micro batch `micro`, for programs with several micro batches:
// "x@MICRO3".
std::string MicroName(const std::string& var, int micro);
std::string WholeName(const std::string& var);  // returns "x" for "x@MICRO3"

struct SectionProgram {
  Program program;
  // Parameters, and the sums of their gradients over the micro batches, in the order in which the
  // sums become ready.
  std::vector<ParamGrad> grads;
  std::vector<ops::Op> resets;  // operators that run at the end of the step
};
// Returns the program of this rank. `whole` is the program with backward, bound to the size of one
// micro batch. The data variables of the result hold all micro batches. Gradients are accumulated
// as in batch_merge_repeats. Loss and metrics are means over the micro batches. The last stage of
// the first replica sends loss and metrics to rank 0; other ranks do not receive them.
StatusOr<SectionProgram> UnrollSection(const Program& whole, const std::vector<ParamGrad>& grads,
                                       const PipelineRank& rank);

// Returns the rank's program for one batch of a program without backward. The last stage sends loss
// and metrics to stage 0.
StatusOr<Program> ForwardSection(const Program& forward, const PipelineRank& rank);

}  // namespace tandem::graph
