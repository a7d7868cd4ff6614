// The images of Debian's package dataset-fashion-mnist, and a check of a directory with such files.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// Directory of the files in Debian's package dataset-fashion-mnist.
inline constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";

// OK if the four idx files of MNIST's layout are in `dir`, each plain or with .gz. NOT_FOUND: one
// is absent; the message names the first. Does not read the files.
Status CheckIdxDir(const std::string& dir);

}  // namespace tandem::deploy
