// A tensor: its description, its place, and shared memory. Copies of a Tensor share the same
// memory.
#pragma once

#include <span>
#include <utility>

#include "common/tensor/device.h"
#include "common/tensor/types.h"

namespace tandem {

class Tensor {
 public:
  Tensor() = default;
  // A view of `buffer` from byte `offset` on. REQUIRES: `buffer` has offset + desc.bytes() bytes.
  Tensor(TensorDesc desc, Place place, Buffer buffer, size_t offset = 0)
      : desc_(desc), place_(place), buffer_(std::move(buffer)), offset_(offset) {}

  // Makes a tensor with new memory on `device`. The memory is not initialised.
  static StatusOr<Tensor> Make(const TensorDesc& desc, Device& device);

  bool defined() const { return buffer_ != nullptr; }
  const TensorDesc& desc() const { return desc_; }
  DType dtype() const { return desc_.dtype; }
  const Shape& shape() const { return desc_.shape; }
  int64_t numel() const { return desc_.shape.numel(); }
  size_t bytes() const { return desc_.bytes(); }
  Place place() const { return place_; }
  void* data() const { return buffer_.get() + offset_; }

  // Returns the elements in host memory. REQUIRES: the tensor is on the CPU and T is the element
  // type (uint16_t for f16 and bf16).
  template <typename T>
  std::span<T> span() const {
    CHECK(place_.kind == PlaceKind::kCpu && sizeof(T) == SizeOf(dtype()));
    return {static_cast<T*>(data()), static_cast<size_t>(numel())};
  }

 private:
  TensorDesc desc_;
  Place place_;
  Buffer buffer_;
  size_t offset_ = 0;
};

}  // namespace tandem
