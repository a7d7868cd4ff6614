// The size of the steps of a job, stored next to its stream.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "trainer/reader/input/record_log.h"

namespace tandem::reader {

// Compares the global batch and the number of ranks of `share` with the file
// `dir`/.tandem-batch-JOB. If there is no such file, rank 0 writes it, durable. A file of an
// earlier version has no number of ranks. `source`: name of the stream, for the message.
// `together`: all ranks are at `step`, so rank 0 replaces the file at step 0. Otherwise other ranks
// may have later steps. FAILED_PRECONDITION: the earlier steps had other sizes, so `step` does not
// say which records they had.
Status CheckBatchFile(const std::string& dir, const std::string& source, const std::string& job,
                      uint64_t step, const LogShare& share, bool together);

// Returns the name of a job as a part of a file name.
std::string FileNameOf(const std::string& job);

}  // namespace tandem::reader
