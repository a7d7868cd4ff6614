// Implements use_dali: the operator sample_image makes the samples from image lists in the training
// step. The reader only decodes the pixels.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Inserts the operator sample_image at the start of a forward program. The operator writes the
// variable "img", which was a data variable before. The fields of a raw image list
// (trainer/reader/images/image_list.h) become data variables. INVALID_ARGUMENT: the program does
// not read an image list.
Status SampleImagesIn(const JobConfig& config, graph::Program& program);

}  // namespace tandem::trainer
