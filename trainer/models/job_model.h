// Builds the model that a job names: a network of the zoo, or a program file.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem {
class JobConfig;
class ModelConfig;
}  // namespace tandem

namespace tandem::trainer {

// Returns the forward program of the model for `batch` samples. Relative paths start at `job_dir`,
// which is empty or ends with "/". Errors: those of BuildModel or of the parser of program files.
StatusOr<graph::Program> ForwardProgram(const ModelConfig& model, const std::string& job_dir,
                                        int64_t batch);

// Returns the number of pipeline stages that the operators of the job's program name
// (kernels/graph/op_device.h). 0: the operators name no stage.
StatusOr<int> NamedSectionsOf(const JobConfig& config, const std::string& job_dir);

}  // namespace tandem::trainer
