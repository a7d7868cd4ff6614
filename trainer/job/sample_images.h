// Implements use_dali: the step makes the samples of image lists, with the operator sample_image.
// The reader only decodes the pixels.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Whether the job sets use_dali.
bool SamplesInStep(const JobConfig& config);

// Inserts sample_image at the start of a forward program. The operator writes the former data
// variable "img". The fields of a raw image list (trainer/reader/image_list.h) become the data
// variables. INVALID_ARGUMENT: the program reads no such images.
Status SampleImagesIn(const JobConfig& config, Program& program);

}  // namespace tandem::trainer
