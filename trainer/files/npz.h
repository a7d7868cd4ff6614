// NumPy's .npz: a ZIP archive of .npy files, one a tensor, not compressed; numpy.load reads it, and
// maps nothing. Sources: numpy.lib.format ("Format Version 1.0"); PKWARE APPNOTE 6.3 (ZIP64).
#pragma once

#include <string>

#include "common/base/status.h"
#include "trainer/files/safetensors.h"

namespace tandem {

// Writes the file at once; it is synced to disk when this returns. Not atomic, and the same bytes
// for the same tensors. Tensors must be on the CPU; f32 f16 i32 i64 u8: INVALID_ARGUMENT for bf16,
// which NumPy does not have, and for a name that is empty or longer than 65531 bytes.
// RESOURCE_EXHAUSTED when the disk is full.
Status WriteNpz(const std::string& path, const TensorMap& tensors);

}  // namespace tandem
