// Settings that the kernels of single families read. A plan passes them through to the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

class ConvSearch;  // kernels/ops/conv/conv_search.h

// For kernels/ops/conv.
struct ConvSettings {
  size_t scratch_max = SIZE_MAX;  // most scratch bytes for an algorithm
  ConvSearch* search = nullptr;   // measures the algorithms; nullptr: choose by rule
};

struct KernelSettings {
  ConvSettings conv;
  // For kernels/ops/product, CUDA only: f32 matrix products may use TF32.
  bool tensor_op_math = false;
  // For kernels/ops/norm, CUDA only: batch normalisation uses cuDNN's persistent mode.
  bool persistent_batch_norm = true;
};

}  // namespace tandem
