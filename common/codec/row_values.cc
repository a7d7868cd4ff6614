#include "common/codec/row_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/nearest.h"
#include "common/base/require.h"
#include "common/tensor/types.h"

namespace tandem::codec {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr float kSteps = 127;  // steps from 0 to the largest absolute value of a row

// Returns the scale of a row; NaN: the row contains NaN or infinity.
float ScaleOf(std::span<const float> row) {
  float most = 0;
  for (const float v : row) {
    if (!std::isfinite(v)) return std::numeric_limits<float>::quiet_NaN();
    most = std::max(most, std::fabs(v));
  }
  return most / kSteps;
}

void AppendInt8(std::span<const float> row, CodedRows& coded) {
  const float scale = ScaleOf(row);
  coded.scales.push_back(scale);
  for (const float v : row) {
    // A scale of 0 is that of zeros, or of values that are too small for a scale.
    const bool zero = std::isnan(scale) || scale == 0;
    const float steps = zero ? 0 : std::clamp(std::nearbyint(v / scale), -kSteps, kSteps);
    coded.bytes.push_back(static_cast<char>(static_cast<int8_t>(steps)));
  }
}

}  // namespace

StatusOr<RowFormat> ParseRowFormat(std::string_view name) {
  if (name == "f32") return RowFormat::kF32;
  if (name == "bf16") return RowFormat::kBF16;
  if (name == "int8") return RowFormat::kInt8;
  return InvalidArgument("values are requested as \"%s\", expected f32, bf16 or int8 [TD1006]%s",
                         std::string(name), OrDidYouMean(name, {"f32", "bf16", "int8"}));
}

size_t ValueBytes(RowFormat format) {
  switch (format) {
    case RowFormat::kF32:
      return sizeof(float);
    case RowFormat::kBF16:
      return sizeof(uint16_t);
    case RowFormat::kInt8:
      return 1;
  }
  return sizeof(float);
}

CodedRows EncodeRows(RowFormat format, std::span<const float> values, size_t dim) {
  TD_REQUIRE(dim > 0 && values.size() % dim == 0);
  CodedRows coded;
  coded.bytes.reserve(values.size() * ValueBytes(format));
  switch (format) {
    case RowFormat::kF32:
      coded.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
      break;
    case RowFormat::kBF16:
      for (const float v : values) {
        const uint16_t bits = F32ToBF16(v);
        coded.bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
      }
      break;
    case RowFormat::kInt8:
      for (size_t i = 0; i < values.size(); i += dim) AppendInt8(values.subspan(i, dim), coded);
      break;
  }
  return coded;
}

StatusOr<std::vector<float>> DecodeRows(RowFormat format, std::string_view bytes,
                                        std::span<const float> scales, size_t rows, size_t dim) {
  const size_t n = rows * dim;
  if (bytes.size() != n * ValueBytes(format) ||
      scales.size() != (format == RowFormat::kInt8 ? rows : 0)) {
    return DataLoss("%d rows of %d values have %d bytes and %d scales", rows, dim, bytes.size(),
                    scales.size());
  }
  std::vector<float> values(n);
  switch (format) {
    case RowFormat::kF32:
      if (n > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
      break;
    case RowFormat::kBF16:
      for (size_t i = 0; i < n; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
        values[i] = BF16ToF32(bits);
      }
      break;
    case RowFormat::kInt8:
      for (size_t i = 0; i < n; ++i) {
        values[i] = static_cast<float>(static_cast<int8_t>(bytes[i])) * scales[i / dim];
      }
      break;
  }
  return values;
}

}  // namespace tandem::codec
