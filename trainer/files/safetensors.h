// The safetensors format: 8 bytes with the length of a JSON header (little-endian), the header,
// then the tensors back to back. Source: huggingface/safetensors, README "Format". The writer sorts
// tensors by name, so that equal tensors and metadata give equal bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

namespace tandem {

using TensorMap = std::map<std::string, Tensor>;
using StringMap = std::map<std::string, std::string>;

inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  // as the reference reader

struct Safetensors {
  TensorMap tensors;
  StringMap metadata;  // "__metadata__"
};

// Writes the file at once; it is synced to disk when this returns. Not atomic: write to a temporary
// name where a reader may look. Tensors must be on the CPU; f32 f16 bf16 i32 i64 u8.
// RESOURCE_EXHAUSTED when the disk is full; INVALID_ARGUMENT for a tensor named "__metadata__", one
// without memory, or a name or metadata that is not UTF-8.
Status WriteSafetensors(const std::string& path, const TensorMap& tensors,
                        const StringMap& metadata);

// Reads a whole file into memory of `device`, which must give host memory.
// NOT_FOUND; DATA_LOSS naming file and tensor for anything that is not exactly such a file: header
// longer than the file or kSafetensorsHeaderBytesMax, broken JSON, names given twice, unknown
// element type, offsets that overlap, leave gaps, pass the end or do not fit the shape, bytes left
// over.
StatusOr<Safetensors> ReadSafetensors(const std::string& path, Device& device);

// The same from memory; `name` begins every message.
StatusOr<Safetensors> ParseSafetensors(std::span<const uint8_t> file, const std::string& name,
                                       Device& device);

// SHA-256 of the file that WriteSafetensors would write for `tensors` without metadata, in hex:
// equal exactly when names, element types, shapes and bits are equal.
StatusOr<std::string> Sha256Params(const TensorMap& tensors);

}  // namespace tandem
