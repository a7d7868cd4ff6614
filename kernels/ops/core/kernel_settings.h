// Settings that only some kernels read, such as those of convolutions. A plan passes the settings
// to all kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::ops {

class ConvSearch;  // measures convolution algorithms, see kernels/ops/conv/conv_search.h

// Settings of the kernels in kernels/ops/conv.
struct ConvSettings {
  size_t scratch_max = SIZE_MAX;  // largest scratch memory of an algorithm, in bytes
  // Measures algorithms and selects the fastest. nullptr: algorithms are chosen by rules.
  ConvSearch* search = nullptr;
};

struct KernelSettings {
  ConvSettings conv;
  // For CUDA kernels in kernels/ops/product: true: products of f32 matrices may use TF32.
  bool tensor_op_math = false;
  // For CUDA kernels in kernels/ops/norm: true: batch normalisation uses cuDNN's persistent mode.
  bool persistent_batch_norm = true;
};

}  // namespace tandem::ops
