// Sets the arguments of a model that follow from the columns of a table.
#pragma once

#include <string>

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::strategy {
class Diagnostics;
class Origins;
}  // namespace tandem::strategy

namespace tandem::trainer {

// For data of format "table" and the model "mlp": reads the training files in `job_dir` and sets
// the arguments features, classes, outputs, weighted and loss that the job does not set. Adds a
// note with these arguments. Reports an error if the files cannot be read or do not fit the loss.
// Does nothing for other jobs, or if `diagnostics` already has an error.
void SetDataSizes(const std::string& job_dir, const strategy::Origins& origins,
                  strategy::Diagnostics* diagnostics, JobConfig* config);

}  // namespace tandem::trainer
