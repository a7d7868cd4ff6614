// The demo's job and where its images are.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";

// OK when the four idx files of MNIST's layout are in `dir`, each plain or with .gz; else NOT_FOUND
// naming the first absent one. Does not look into them.
Status CheckIdxFolder(const std::string& dir);

// deploy/examples/lenet.pbtxt, as it was when the program was built.
const char* ExampleJob();

// The example with the demo's data, checkpoints and length in it. `epochs` 0: the example's own.
StatusOr<std::string> DemoJob(const std::string& data_dir, const std::string& checkpoint_dir,
                              int epochs);

}  // namespace tandem::deploy
