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

// A view of an array in the bytes of a file.
struct NpyArray {
  NpyType type = NpyType::kF4;
  std::vector<uint64_t> dims;     // outermost first; empty: one element
  uint64_t elements = 1;          // product of dims
  std::span<const uint8_t> data;  // little-endian, in C order

  // REQUIRES: i < elements.
  double At(size_t i) const;
};

// Parses the bytes of a .npy file, which must outlive the result. `name` begins every message.
// DATA_LOSS: the file is damaged; the message has the offset. UNIMPLEMENTED: an array of another
// type or order; the message has the line of Python that converts it.
StatusOr<NpyArray> ParseNpy(std::span<const uint8_t> file, const std::string& name);

}  // namespace tandem::reader
