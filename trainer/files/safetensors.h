// The safetensors format: 8 bytes with the length of a JSON header (little-endian), the header,
// then the tensors without gaps. Source: huggingface/safetensors, README "Format". The writer sorts
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

inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  // the reference reader's limit

struct Safetensors {
  TensorMap tensors;
  StringMap metadata;  // the header's "__metadata__"
};

// Writes the file and syncs it to disk. Not atomic: use a temporary name if readers may see the
// file. Tensors must be on the CPU, with type f32 f16 bf16 i32 i64 or u8. RESOURCE_EXHAUSTED: the
// disk is full. INVALID_ARGUMENT: a tensor has the name "__metadata__" or no memory, or a name or
// metadata is not UTF-8.
Status WriteSafetensors(const std::string& path, const TensorMap& tensors,
                        const StringMap& metadata);

// Reads a whole file into memory of `device`, which must provide host memory. NOT_FOUND: no such
// file. DATA_LOSS: the file is malformed; the message names file and tensor:
//
// - the header is longer than the file or kSafetensorsHeaderBytesMax, or is broken JSON;
// - a name is duplicate, or an element type unknown;
// - offsets overlap, leave gaps, pass the end or do not match the shape;
// - bytes are left over.
StatusOr<Safetensors> ReadSafetensors(const std::string& path, Device& device);

// Parses the same from memory; `name` begins every message.
StatusOr<Safetensors> ParseSafetensors(std::span<const uint8_t> file, const std::string& name,
                                       Device& device);

// SHA-256, in hex, of the file that WriteSafetensors would write for `tensors` without metadata.
// Equal exactly if names, element types, shapes and bits are equal.
StatusOr<std::string> Sha256Params(const TensorMap& tensors);

}  // namespace tandem::trainer
