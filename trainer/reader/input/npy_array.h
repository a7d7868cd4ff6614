// Arrays in numpy's file format, versions 1.0 to 3.0. Source: numpy, "NEP 1: A simple file format
// for NumPy arrays". Internal to the table reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

enum class NpyType : uint8_t { kF4, kF8, kI4, kI8, kU1, kBool };

// An array whose elements are in the bytes of a file. Does not own these bytes.
struct NpyArray {
  NpyType type = NpyType::kF4;
  std::vector<uint64_t> dims;     // dimensions, outermost first; empty: a single number
  uint64_t elements = 1;          // number of elements (product of dims)
  std::span<const uint8_t> data;  // elements, little-endian, in C order

  // Returns element `i` in C order. REQUIRES: i < elements.
  double At(size_t i) const;
};

// Parses the bytes of a .npy file. `file` must outlive the result. Every message begins with
// `name`. DATA_LOSS: the file is damaged; the message has the offset. UNIMPLEMENTED: the array has
// an unsupported version, type or order; the message says how Python can convert the array.
StatusOr<NpyArray> ParseNpy(std::span<const uint8_t> file, const std::string& name);

}  // namespace tandem::reader
