#include "trainer/python/arrays.h"

#include <algorithm>
#include <array>
#include <map>

#include "common/base/check.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kU8};

std::string TypeText(const py::array& array) { return py::str(array.dtype()).cast<std::string>(); }

std::string ShapeText(const py::array& array) {
  std::string text = "[";
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    text += (axis > 0 ? "," : "") + std::to_string(array.shape(axis));
  }
  return text + "]";
}

bool HasShape(const py::array& array, const Shape& shape) {
  if (array.ndim() != shape.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (array.shape(axis) != shape[axis]) return false;
  }
  return true;
}

const char* NumpyName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "uint16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
      return "uint8";
  }
  CHECK(false) << "unknown element type";
  return "";
}

}  // namespace

const py::dtype& NumpyType(DType dtype) {
  // Never destroyed, because Python may end before the static objects of this module.
  static const auto& types = *new std::map<DType, py::dtype>([] {
    std::map<DType, py::dtype> all;
    for (const DType type :
         {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kU8}) {
      all.emplace(type, py::dtype(NumpyName(type)));
    }
    return all;
  }());
  return types.at(dtype);
}

StatusOr<DType> ElementType(const py::array& array) {
  for (const DType dtype : kTypes) {
    if (HasType(array, dtype)) return dtype;
  }
  return InvalidArgument(
      "an array of %s is not supported, expected float32, float16, int32, int64 or uint8 [TD1207]",
      TypeText(array));
}

bool HasType(const py::array& array, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return py::isinstance<py::array_t<float>>(array);
    case DType::kI64:
      return py::isinstance<py::array_t<int64_t>>(array);
    case DType::kI32:
      return py::isinstance<py::array_t<int32_t>>(array);
    case DType::kU8:
      return py::isinstance<py::array_t<uint8_t>>(array);
    case DType::kF16:
    case DType::kBF16:
      return array.dtype().equal(NumpyType(dtype));
  }
  return false;
}

py::array NewArray(const TensorDesc& desc) {
  // numpy's own function. The constructors of py::array make two vectors for each array.
  const auto dims = desc.shape.dims();
  std::array<Py_intptr_t, Shape::kRankMax> shape;
  std::copy(dims.begin(), dims.end(), shape.begin());
  const auto& numpy = py::detail::npy_api::get();
  PyObject* const made = numpy.PyArray_NewFromDescr_(
      numpy.PyArray_Type_, NumpyType(desc.dtype).inc_ref().ptr(), static_cast<int>(dims.size()),
      shape.data(), nullptr, nullptr, 0, nullptr);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::array>(made);
}

bool IsPlain(const TensorDesc& desc, py::handle value) {
  if (!py::isinstance<py::array>(value)) return false;
  const auto* const array = py::detail::array_proxy(value.ptr());
  const auto dims = desc.shape.dims();
  return array->descr == NumpyType(desc.dtype).ptr() && (array->flags & py::array::c_style) != 0 &&
         std::equal(dims.begin(), dims.end(), array->dimensions, array->dimensions + array->nd);
}

py::array ArrayOf(const TensorDesc& desc, const void* memory, py::handle owner) {
  const auto dims = desc.shape.dims();
  const std::vector<py::ssize_t> shape(dims.begin(), dims.end());
  std::vector<py::ssize_t> strides(shape.size());
  auto stride = static_cast<py::ssize_t>(SizeOf(desc.dtype));
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) strides[axis] = stride;
  return py::array(NumpyType(desc.dtype), shape, strides, memory, owner);
}

StatusOr<py::array> ArrayFor(const TensorDesc& desc, py::handle value, const std::string& name) {
  py::array array;
  if (py::isinstance<py::array>(value)) {
    array = py::reinterpret_borrow<py::array>(value);
    if (!HasType(array, desc.dtype)) {
      return InvalidArgument(
          "\"%s\": the array has the type %s, expected %s [TD1207]; hint: array.astype(\"%s\")",
          name, TypeText(array), NumpyName(desc.dtype), NumpyName(desc.dtype));
    }
  } else {
    array = py::module_::import("numpy").attr("asarray")(value, NumpyType(desc.dtype));
  }
  if (!HasShape(array, desc.shape)) {
    return InvalidArgument("\"%s\": the array has the shape %s, expected %s [TD1207]", name,
                           ShapeText(array), ToString(desc.shape));
  }
  if ((array.flags() & py::array::c_style) == 0) {
    array = py::array::ensure(array, py::array::c_style);
    if (!array) throw py::error_already_set();
  }
  return array;
}

}  // namespace tandem::python
