// The images of Debian's package dataset-fashion-mnist, and a check of a directory with such files.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// The directory in which Debian's package dataset-fashion-mnist installs its files.
inline constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";

// Checks that the four idx files of MNIST are in `dir`, each as a plain or a .gz file. Does not
// read the files. NOT_FOUND: a file is absent; the message names the first such file.
Status CheckIdxDir(const std::string& dir);

}  // namespace tandem::deploy
