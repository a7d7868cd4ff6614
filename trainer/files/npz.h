// NumPy's .npz: an uncompressed ZIP archive with one .npy file per tensor. numpy.load can read this
// file, but not memory-map it. Sources: numpy.lib.format ("Format Version 1.0"); PKWARE APPNOTE 6.3
// (ZIP64).
#pragma once

#include <string>

#include "common/base/status.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// Writes the tensors to the file and syncs the file to disk. Not atomic. Equal tensors give equal
// bytes. Tensors must be on the CPU, with type f32, f16, i32, i64 or u8. INVALID_ARGUMENT: a
// tensor has type bf16, which NumPy lacks, or a name that is empty or longer than 65531 bytes.
// RESOURCE_EXHAUSTED: the disk is full.
Status WriteNpz(const std::string& path, const TensorMap& tensors);

}  // namespace tandem::trainer
