// The settings that all ranks of a job must share, as one list for all modes. Ranks compare their
// lists after the rendezvous. Pservers compare the list of each trainer with the list of the first
// trainer. A list contains the values of all fields of the job and of its strategy, except the
// fields in NotCompared. Therefore a new field or knob is compared automatically.
#pragma once

#include <span>
#include <string>

#include "collective/communicator.h"
#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::reader {
class Dataset;
}  // namespace tandem::reader

namespace tandem::trainer {

// A field that may differ between ranks, with all its subfields.
struct NotComparedField {
  const char* path;  // path in JobConfig, for example "strategy.runtime_flags.nccl_debug"
  const char* why;
};
std::span<const NotComparedField> NotCompared();

// Returns the list of an effective job for `workers` workers. The list also describes the files of
// the job: a hash of the program's file, the size of the parameters' file, the number of training
// samples, and a hash of the integers in some samples. Reads these files; relative paths start at
// `job_dir`. A long value is shortened and followed by a hash of the whole value.
StatusOr<Agreement> AgreementOf(const JobConfig& config, const std::string& job_dir, int workers,
                                const reader::Dataset& train);

// Returns the list of a job whose caller runs the steps (JobSources::stepped_by_caller). The list
// contains a hash of `program`, the text of the forward program. It describes no data.
Agreement AgreementOf(const JobConfig& config, const std::string& program);

// Compares the lists of all ranks. A collective call: all ranks must make the call. `ranks` must
// communicate host memory.
// INVALID_ARGUMENT: the list of a rank differs from the list of rank 0. All ranks return the same
// message, which names the first such rank and the first difference.
Status AgreeAmongRanks(collective::Communicator& ranks, const Agreement& mine, Time deadline);

}  // namespace tandem::trainer
