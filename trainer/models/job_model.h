// The model that a job names: a network of the zoo, or a program file.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem {

class JobConfig;
class ModelConfig;

// The forward program for `batch` samples. Relative paths begin at `job_dir`, which ends with "/"
// or is empty. Errors as those of BuildModel and of the file's parser.
StatusOr<Program> ForwardProgram(const ModelConfig& model, const std::string& job_dir,
                                 int64_t batch);

// The number of sections that the operators of the job's program name
// (kernels/graph/op_device.h); 0: they name none.
StatusOr<int> NamedSectionsOf(const JobConfig& config, const std::string& job_dir);

}  // namespace tandem
