// Typed views of numpy arrays, and new arrays, for bindings that need no tensors.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "trainer/python/errors.h"

namespace tandem::python {

// Returns the elements of a row-major array, which must stay alive. `kinds`: the format characters
// of Python's buffers for T.
template <typename T>
std::span<T> ElementsOf(const pybind11::buffer& array, std::string_view kinds,
                        const std::string& name) {
  const pybind11::buffer_info info = array.request(!std::is_const_v<T>);
  bool good = info.itemsize == sizeof(T) && info.format.size() == 1 &&
              kinds.find(info.format[0]) != std::string_view::npos;
  pybind11::ssize_t stride = info.itemsize;
  for (pybind11::ssize_t i = info.ndim; i-- > 0; stride *= info.shape[i]) {
    good = good && (info.shape[i] <= 1 || info.strides[i] == stride);
  }
  if (!good) {
    throw StatusError(
        InvalidArgument("%s: the array is not row-major, or its elements are not %s "
                        "of %d bytes [TD1206]",
                        name, kinds == "f" ? "floats" : "integers", sizeof(T)));
  }
  return {static_cast<T*>(info.ptr), static_cast<size_t>(info.size)};
}

// Returns a new row-major array. The strides are given, because pybind11 2.10 does not know the
// size of an element of numpy 2.
template <typename T>
pybind11::array_t<T> NewArrayOf(size_t rows) {
  return pybind11::array_t<T>(std::vector<size_t>{rows}, std::vector<size_t>{sizeof(T)});
}
template <typename T>
pybind11::array_t<T> NewArrayOf(size_t rows, size_t columns) {
  return pybind11::array_t<T>(std::vector<size_t>{rows, columns},
                              std::vector<size_t>{columns * sizeof(T), sizeof(T)});
}

inline std::span<float> Floats(const pybind11::buffer& array, const std::string& name) {
  return ElementsOf<float>(array, "f", name);
}
inline std::span<const float> ConstFloats(const pybind11::buffer& array, const std::string& name) {
  return ElementsOf<const float>(array, "f", name);
}
inline std::span<const int64_t> Ids(const pybind11::buffer& array, const std::string& name) {
  return ElementsOf<const int64_t>(array, "lq", name);
}

}  // namespace tandem::python
