// Checks the settings of a job whose training records are a stream (DataConfig.stream).
#pragma once

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::strategy {
class Diagnostics;
class Origins;
}  // namespace tandem::strategy

namespace tandem::trainer {

// Reports an error for each setting of the stream that is missing or out of range, and for each
// other setting that a stream does not support. Does nothing if the job has no stream.
void CheckStream(const JobConfig& config, int workers, int heter_workers,
                 const strategy::Origins& origins, strategy::Diagnostics* diagnostics);

}  // namespace tandem::trainer
