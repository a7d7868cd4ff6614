// Derives arguments of a model from the columns of a table or the classes of images.
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
// the arguments features, classes, outputs, weighted and loss, unless the job sets them. Adds a
// note with the derived arguments. Reports an error if the files cannot be read or do not fit the
// loss. For a directory of images and an image classifier: sets classes and image, and reports an
// error if the job sets another number of classes. Does nothing for other jobs, or if `diagnostics`
// already has an error.
void SetDataSizes(const std::string& job_dir, const strategy::Origins& origins,
                  strategy::Diagnostics* diagnostics, JobConfig* config);

}  // namespace tandem::trainer
