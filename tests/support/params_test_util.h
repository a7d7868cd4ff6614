// Parameters that jobs saved, and how far two sets of them are apart.
#pragma once

#include <string>

#include "trainer/files/safetensors.h"

namespace tandem {

// The parameters of the checkpoint in folder `dir`, in memory of `device`. Fails the test when
// there is none.
TensorMap SavedParams(const std::string& dir, Device& device);

// |a - b| / |b|, over all parameters. Fails the test when the two have not the same ones.
double Distance(const TensorMap& a, const TensorMap& b);

}  // namespace tandem
