#include "common/tensor/types.h"

#include <bit>
#include <charconv>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"

namespace tandem {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  size_t bytes;
};
constexpr DTypeRow kDTypes[] = {{DType::kF32, "f32", 4},   {DType::kF16, "f16", 2},
                                {DType::kBF16, "bf16", 2}, {DType::kI32, "i32", 4},
                                {DType::kI64, "i64", 8},   {DType::kU8, "u8", 1}};

const DTypeRow& Row(DType dtype) {
  const int i = static_cast<int>(dtype) - 1;
  CHECK(i >= 0 && i < static_cast<int>(std::size(kDTypes))) << "not a DType: " << i + 1;
  return kDTypes[i];
}

}  // namespace

size_t SizeOf(DType dtype) { return Row(dtype).bytes; }
const char* Name(DType dtype) { return Row(dtype).name; }

StatusOr<DType> ParseDType(std::string_view text) {
  for (const DTypeRow& row : kDTypes) {
    if (text == row.name) return row.dtype;
  }
  std::vector<std::string> names;
  for (const DTypeRow& row : kDTypes) names.emplace_back(row.name);
  return InvalidArgument("unknown element type \"%s\", expected one of %s%s", std::string(text),
                         absl::StrJoin(names, ", "), OrDidYouMean(text, names));
}

StatusOr<DType> DTypeFromNumber(int number) {
  if (number < 1 || number > static_cast<int>(std::size(kDTypes))) {
    return InvalidArgument("unknown element type number %d", number);
  }
  return static_cast<DType>(number);
}

std::string ToString(const Shape& shape) {
  return "[" + absl::StrJoin(shape.dims().begin(), shape.dims().end(), ",") + "]";
}

StatusOr<Shape> ParseShape(std::span<const int64_t> dims) {
  if (dims.size() > Shape::kRankMax) {
    return InvalidArgument("shape [%s,...] has %d dimensions, expected at most %d [TD1207]",
                           absl::StrJoin(dims.first(Shape::kRankMax), ","), dims.size(),
                           Shape::kRankMax);
  }
  constexpr int64_t kNumelMax = int64_t{1} << 48;
  int64_t numel = 1;
  for (int64_t d : dims) {
    if (d < 0 || (d > 0 && numel > kNumelMax / d)) {
      return InvalidArgument(
          "shape [%s] is invalid: a dimension is negative, or the number of elements is too large "
          "[TD1207]",
          absl::StrJoin(dims.begin(), dims.end(), ","));
    }
    numel *= d;
  }
  return Shape(dims);
}

std::string ToString(const Place& place) {
  return place.kind == PlaceKind::kCpu ? "cpu" : absl::StrFormat("cuda:%d", place.index);
}

StatusOr<Place> ParsePlace(std::string_view s) {
  if (s == "cpu") return Place{};
  if (s == "cuda" || s == "gpu") return Place{PlaceKind::kCuda, 0};
  if (s.starts_with("cuda:")) {
    const std::string_view digits = s.substr(5);
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) {
      return Place{PlaceKind::kCuda, index};
    }
  }
  return InvalidArgument("unknown place \"%s\", expected cpu, cuda or cuda:N [TD1006]%s",
                         std::string(s), OrDidYouMean(s, {"cpu", "cuda"}));
}

std::string ToString(const TensorDesc& desc) { return Name(desc.dtype) + ToString(desc.shape); }

float BF16ToF32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t F32ToBF16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  // Sets the quiet bit, so that a NaN stays a NaN after the truncation.
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// Converts f16 to f32 with integer operations, because some compilers have no 16-bit float (clang
// 14 has none on x86). The exponents have the biases 15 and 127, the mantissas 10 and 23 bits.
float F16ToF32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = uint32_t{bits & 0x7fffu} << 13;
  if ((bits & 0x7c00u) == 0x7c00u) {  // infinite or NaN; a NaN becomes quiet, as in processors
    const uint32_t quiet = (bits & 0x3ffu) != 0 ? 0x7fc00000u : 0x7f800000u;
    return std::bit_cast<float>(sign | quiet | magnitude);
  }
  constexpr uint32_t kBias = (127 - 15) << 23, kOne = 1 << 23;
  if (magnitude >= kOne) return std::bit_cast<float>(sign | (magnitude + kBias));
  // A subnormal number is computed as the difference of two normal numbers, because a thread may
  // treat subnormal f32 as 0 (common/os/float_mode.h).
  const float small =
      std::bit_cast<float>(magnitude + kBias + kOne) - std::bit_cast<float>(kBias + kOne);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(small));
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const auto with_sign = [sign](uint32_t rest) { return static_cast<uint16_t>(sign | rest); };
  // A NaN stays a NaN and becomes quiet.
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u | ((magnitude >> 13) & 0x3ffu));
  // Numbers from 2^16 on become infinite in f16.
  if (magnitude >= 0x47800000u) return with_sign(0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal. The addition of 2^-1 rounds the value, and leaves the 10
    // mantissa bits of the result at the end of the sum.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  // 1 if the last kept bit is 1, so that ties round to even.
  const uint32_t odd = (magnitude >> 13) & 1u;
  return with_sign((magnitude - (112u << 23) + 0xfffu + odd) >> 13);
}

}  // namespace tandem
