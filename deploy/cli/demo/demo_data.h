// The demo's job and the location of its images.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// Directory of the files in Debian's package dataset-fashion-mnist.
inline constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";

// OK if the four idx files of MNIST's layout are in `dir`, each plain or with .gz. NOT_FOUND: one
// is absent; the message names the first. Does not read the files.
Status CheckIdxDir(const std::string& dir);

// The content of deploy/examples/lenet.pbtxt at build time.
const char* ExampleJob();

// The example job with the demo's data, checkpoints and length. `epochs` 0: the example's number.
StatusOr<std::string> DemoJob(const std::string& data_dir, const std::string& checkpoint_dir,
                              int epochs);

}  // namespace tandem::deploy
