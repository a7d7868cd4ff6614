// The demo's job.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// The content of deploy/examples/lenet.pbtxt at build time.
const char* ExampleJob();

// The example job with the demo's data, checkpoints and length. `epochs` 0: the example's number.
StatusOr<std::string> DemoJob(const std::string& data_dir, const std::string& checkpoint_dir,
                              int epochs);

}  // namespace tandem::deploy
