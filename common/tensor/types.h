// The types that describe tensors: element types, shapes and places.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/status.h"

namespace tandem {

// Element types. The numbers are equal to those of DataType in proto/tensor.proto.
enum class DType : uint8_t { kF32 = 1, kF16 = 2, kBF16 = 3, kI32 = 4, kI64 = 5, kU8 = 6 };

// Returns whether `dtype` is a floating-point type of 16 bits.
inline bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

size_t SizeOf(DType dtype);                    // size of one element in bytes
const char* Name(DType dtype);                 // returns "f32", "f16", "bf16", "i32", "i64" or "u8"
StatusOr<DType> ParseDType(std::string_view);  // converts a result of Name back to the element type
StatusOr<DType> DTypeFromNumber(int number);   // converts a proto field; unknown numbers are errors

// The dimensions of a tensor, outermost first (row-major order). A scalar has rank 0.
class Shape {
 public:
  static constexpr int kRankMax = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    CHECK_LE(dims.size(), size_t{kRankMax});
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t& operator[](int axis) { return dims_[axis]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d : dims()) n *= d;
    return n;
  }
  // Returns the product of the dimensions `from` to `to` - 1.
  int64_t numel(int from, int to) const {
    int64_t n = 1;
    for (int axis = from; axis < to; ++axis) n *= dims_[axis];
    return n;
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
  }

 private:
  int rank_ = 0;
  std::array<int64_t, kRankMax> dims_{};
};
std::string ToString(const Shape& shape);  // returns a shape as text, such as "[64,1,28,28]"
inline std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << ToString(s); }

// Makes a shape of dimensions from an outside source. Checks that the rank is at most
// Shape::kRankMax, every dimension is >= 0, and there are at most 2^48 elements.
StatusOr<Shape> ParseShape(std::span<const int64_t> dims);

enum class PlaceKind : uint8_t { kCpu, kCuda };
struct Place {
  PlaceKind kind = PlaceKind::kCpu;
  int index = 0;
  friend bool operator==(const Place&, const Place&) = default;
};
std::string ToString(const Place& place);  // returns a place as text, such as "cpu" or "cuda:0"
StatusOr<Place> ParsePlace(std::string_view s);  // accepts texts such as "cpu", "cuda" and "cuda:1"

// The element type and shape of a tensor. The tensor may not have memory yet.
struct TensorDesc {
  DType dtype = DType::kF32;
  Shape shape;
  size_t bytes() const { return static_cast<size_t>(shape.numel()) * SizeOf(dtype); }
  friend bool operator==(const TensorDesc&, const TensorDesc&) = default;
};
// Returns type and shape as text, such as "f32[64,10]".
std::string ToString(const TensorDesc& desc);

// Convert 16-bit floats between their stored bits and f32. Arithmetic uses f32.
float F16ToF32(uint16_t bits);
uint16_t F32ToF16(float value);  // converts f32 to f16; rounds to nearest, ties to even
float BF16ToF32(uint16_t bits);
uint16_t F32ToBF16(float value);  // converts f32 to bf16; rounds to nearest, ties to even

}  // namespace tandem
