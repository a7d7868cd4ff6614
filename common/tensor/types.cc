#include "common/tensor/types.h"

#include <bit>
#include <charconv>

#include "absl/strings/str_join.h"

namespace tandem {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  size_t bytes;
};
constexpr DTypeRow kDTypes[] = {{DType::kF32, "f32", 4}, {DType::kF16, "f16", 2},
                                {DType::kBF16, "bf16", 2}, {DType::kI32, "i32", 4},
                                {DType::kI64, "i64", 8}, {DType::kU8, "u8", 1}};

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
  return InvalidArgument("unknown element type \"%s\" (f32, f16, bf16, i32, i64, u8)",
                         std::string(text));
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
    return InvalidArgument("rank %d is above the limit of %d", dims.size(), Shape::kRankMax);
  }
  constexpr int64_t kNumelMax = int64_t{1} << 48;
  int64_t numel = 1;
  for (int64_t d : dims) {
    if (d < 0 || (d > 0 && numel > kNumelMax / d)) {
      return InvalidArgument("bad shape [%s]", absl::StrJoin(dims.begin(), dims.end(), ","));
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
  return InvalidArgument("unknown place \"%s\": say cpu, cuda or cuda:N", std::string(s));
}

std::string ToString(const TensorDesc& desc) { return Name(desc.dtype) + ToString(desc.shape); }

float BF16ToF32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t F32ToBF16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);  // NaN
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float F16ToF32(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

uint16_t F32ToF16(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

}  // namespace tandem
