// The job file of `tandem demo`, and the directory of its images.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// The directory in which Debian's package dataset-fashion-mnist installs its files.
inline constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";

// Checks that the four idx files of MNIST are in `dir`, each as a plain or a .gz file. Does not
// read the files. NOT_FOUND: a file is absent; the message names the first such file.
Status CheckIdxDir(const std::string& dir);

// Returns the content of deploy/examples/lenet.pbtxt, which the build embeds in the program.
const char* ExampleJob();

// Returns the example job with the demo's data, checkpoints and length. If `epochs` is 0, the job
// has the number of epochs of the example.
StatusOr<std::string> DemoJob(const std::string& data_dir, const std::string& checkpoint_dir,
                              int epochs);

}  // namespace tandem::deploy
