// Rows of f32 values in fewer bytes, for readers of a table: as bf16, or as int8 with a scale for
// each row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::codec {

// The numbers are those of ValueFormat in proto/pserver.proto.
enum class RowFormat : uint8_t {
  kF32 = 0,   // exact
  kBF16 = 1,  // rounded to nearest: the error is at most 2^-8 of the value; infinity, NaN stay
  // A row is 127 steps of its largest absolute value: the error of a value is at most half a step,
  // 1/254 of the largest absolute value of its row, and its rounding to f32. A row that contains
  // NaN or infinity is NaN.
  kInt8 = 2,
};

// Returns the format with this name: "f32", "bf16" or "int8". INVALID_ARGUMENT: another name.
StatusOr<RowFormat> ParseRowFormat(std::string_view name);
// Returns the bytes of one value, without the scale of its row.
size_t ValueBytes(RowFormat format);

struct CodedRows {
  std::string bytes;          // [rows, dim], little-endian
  std::vector<float> scales;  // kInt8: [rows]; otherwise empty
};
// REQUIRES: dim > 0, and `values` has whole rows of `dim` values.
CodedRows EncodeRows(RowFormat format, std::span<const float> values, size_t dim);
// Returns the values of `rows` rows. DATA_LOSS: the number of bytes or of scales is wrong.
StatusOr<std::vector<float>> DecodeRows(RowFormat format, std::string_view bytes,
                                        std::span<const float> scales, size_t rows, size_t dim);

}  // namespace tandem::codec
