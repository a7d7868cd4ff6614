// Checksums of a rank's parameters (JobConfig.param_checksums). Ranks whose parameters must have
// the same bits compare them, so that a wrong bit of one rank ends the job and names the rank.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"

namespace tandem::trainer {

// Returns whether a checksum is due after a run of `steps` steps that ended with `step`. `every`:
// JobConfig.param_checksums; `last`: the run has the job's last step.
bool ParamChecksumDue(int64_t every, int64_t step, int64_t steps, bool last);

// Returns the CRC32C of the parameters of `program` in the order of their names: of each one its
// name and its bytes. Leaves out tables of which the scope has no variable or only a copy of rows.
StatusOr<uint32_t> ParamChecksum(const graph::Program& program, const exec::Scope& scope);

// Compares the checksums of all ranks, by rank. INTERNAL: they differ; the message names the ranks
// that differ from the majority, or shows the checksums if there is no majority.
Status CompareParamChecksums(std::span<const int64_t> by_rank);

}  // namespace tandem::trainer
