// A step of a pipeline, written out as one rank's program: its section's operators, once for each
// micro batch, in the order of a schedule, and what it sends and receives between. So executor and
// memory plan know nothing of pipelines: activations live from their forward to their backward, and
// a bound on how many micro batches are between the two is one on memory.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/passes/sections.h"
#include "kernels/graph/program.h"

namespace tandem {

// A row of the schedule: forward or backward of one micro batch.
struct PipelineRow {
  bool forward = true;
  int micro = 0;
  bool operator==(const PipelineRow&) const = default;
};
// 1F1B (PipeDream-Flush; Narayanan et al., ICML 2021): section s of n runs forward n - 1 - s times
// ahead, then forward and backward in turns, then the backwards that are left. At most n - s micro
// batches are between their forward and their backward.
std::vector<PipelineRow> OneForwardOneBackward(int section, int sections, int micro_batches);

// Of the rows' time, the share that a rank waits when all rows take equally long:
// (sections - 1) / (micro_batches + sections - 1).
double BubbleShare(int sections, int micro_batches);

// One rank of a pipeline. A replica is a rank for each section, each `apart` behind the last one;
// its ranks share a piece of the batch. Section 0 may also be several ranks, one behind the other,
// each with one of the micro batches of the next section.
struct PipelineRank {
  int section = 0, sections = 1;
  int first_rank = 0;  // the one of section 0; of several the first
  int micro_batches = 1;
  int apart = 1;
  bool rank_each = false;  // each micro batch is of another rank of section 0

  // That of another section.
  int RankOf(int other, int micro) const {
    return first_rank + other * apart + (rank_each ? micro : 0);
  }
};

// A variable of micro batch `micro` of several: "x@MICRO3".
std::string MicroName(const std::string& var, int micro);
std::string WholeName(const std::string& var);  // "x"

struct SectionProgram {
  Program program;
  std::vector<ParamGrad> grads;  // summed over the micro batches, in order of readiness
  std::vector<Op> resets;        // for the end of the step
};
// What the rank runs of `whole`, which is bound to one micro batch and has backward; data variables
// become those of all. Gradients are added up as batch_merge_repeats does. Loss and metrics are
// means over the micro batches, which the last section of the first replica sends to rank 0; other
// ranks have none.
StatusOr<SectionProgram> UnrollSection(const Program& whole, const std::vector<ParamGrad>& grads,
                                       const PipelineRank& rank);

// What the rank runs of a forward program, of one batch; loss and metrics go to section 0.
StatusOr<Program> ForwardSection(const Program& forward, const PipelineRank& rank);

}  // namespace tandem
