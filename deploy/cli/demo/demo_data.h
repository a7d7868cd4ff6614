// The job file of `tandem demo`.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// Returns the content of deploy/examples/lenet.pbtxt, which the build embeds in the program.
const char* ExampleJob();

// Returns the example job with the demo's data, checkpoint directory and number of epochs. `epochs`
// 0: the number of epochs of the example.
StatusOr<std::string> DemoJob(const std::string& data_dir, const std::string& checkpoint_dir,
                              int epochs);

}  // namespace tandem::deploy
