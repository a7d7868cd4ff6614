// The safetensors format: 8 bytes with the length of a JSON header (little-endian), the header, and
// the tensors without gaps. Source: huggingface/safetensors, README "Format". The writer sorts
// tensors by name, so equal tensors and metadata give equal bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

namespace tandem::trainer {

using TensorMap = std::map<std::string, Tensor>;
using StringMap = std::map<std::string, std::string>;

// Maximum size of a header in bytes, as in the reference implementation.
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

struct Safetensors {
  TensorMap tensors;
  StringMap metadata;  // the entry "__metadata__" of the header
};

// Writes the tensors to the file and syncs the file to disk. Not atomic: if readers may see the
// file, the caller writes under a temporary name. Tensors must be on the CPU, with type f32, f16,
// bf16, i32, i64 or u8. RESOURCE_EXHAUSTED: the disk is full. INVALID_ARGUMENT: a tensor has the
// name "__metadata__" or has no memory, or a name or metadata is not UTF-8.
Status WriteSafetensors(const std::string& path, const TensorMap& tensors,
                        const StringMap& metadata);

// Reads a whole file into memory of `device`, which must provide host memory. NOT_FOUND: the file
// does not exist. DATA_LOSS: the file is malformed in one of the following ways; the message names
// the file and the tensor.
// - The header is longer than the file or than kSafetensorsHeaderBytesMax, or it is not valid JSON.
// - A name is duplicate, or an element type is unknown.
// - Offsets overlap, leave gaps, exceed the file or do not match the shape.
// - Bytes follow the last tensor.
StatusOr<Safetensors> ReadSafetensors(const std::string& path, Device& device);

// Parses the content of a file, like ReadSafetensors. Every error message begins with `name`.
StatusOr<Safetensors> ParseSafetensors(std::span<const uint8_t> file, const std::string& name,
                                       Device& device);

// Returns, in hex, the SHA-256 of the file that WriteSafetensors would write for `tensors` without
// metadata. Two hashes are equal if and only if the names, element types, shapes and bits of the
// tensors are equal.
StatusOr<std::string> Sha256Params(const TensorMap& tensors);

}  // namespace tandem::trainer
