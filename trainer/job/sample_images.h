// use_dali: the samples of image lists are made in the step, by sample_image, out of the pixels
// that the reader has decoded.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem {

class JobConfig;

// Whether the job says so.
bool SamplesInStep(const JobConfig& config);

// Puts sample_image in front of a forward program: what was its data variable "img" becomes what
// the operator writes, and the fields of a raw image list (trainer/reader/image_list.h) its data.
// INVALID_ARGUMENT when the program reads no such images.
Status SampleImagesIn(const JobConfig& config, Program& program);

}  // namespace tandem
