#include "trainer/python/tensor_view.h"

#include <pybind11/stl.h>

#include <vector>

#include "trainer/python/arrays.h"
#include "trainer/python/bindings.h"
#include "trainer/python/dlpack.h"
#include "trainer/python/errors.h"

namespace tandem::python {

namespace py = pybind11;

void TensorView::RequireHost() const {
  if (tensor_.place().kind == PlaceKind::kCpu) return;
  throw StatusError(Unimplemented(
      "the tensor is on %s, but only a tensor on the CPU can share its memory with Python "
      "[TD1207]; hint: call numpy() for a copy",
      ToString(tensor_.place())));
}

py::array TensorView::Numpy() const {
  py::array array = NewArray(tensor_.desc());
  void* const to = array.mutable_data();
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(*scope_);
  RaiseIfError(scope_->device().CopyToHost(to, tensor_.data(), tensor_.bytes()));
  return array;
}

py::array TensorView::Share() const {
  RequireHost();
  const py::object owner = py::cast(new TensorView(*this), py::return_value_policy::take_ownership);
  py::array array = ArrayOf(tensor_.desc(), tensor_.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

py::capsule TensorView::DlPack() const {
  RequireHost();
  return DlPackCapsule(tensor_, scope_);
}

void BindTensor(py::module_& module) {
  py::class_<TensorView>(module, "Tensor", "The memory of a variable. A later run may change it.")
      .def_property_readonly(
          "shape",
          [](const TensorView& view) {
            const auto dims = view.tensor().shape().dims();
            return py::tuple(py::cast(std::vector<int64_t>(dims.begin(), dims.end())));
          })
      .def_property_readonly("dtype",
                             [](const TensorView& view) { return Name(view.tensor().dtype()); })
      .def_property_readonly("place",
                             [](const TensorView& view) { return ToString(view.tensor().place()); })
      .def("numpy", &TensorView::Numpy, "A copy of the values as an array of numpy.")
      .def("share", &TensorView::Share, "A read-only array on the same memory, without a copy.")
      .def(
          "__array__",
          [](const TensorView& view, const py::object& dtype) {
            py::object array = view.Numpy();
            return dtype.is_none() ? array : array.attr("astype")(dtype);
          },
          py::arg("dtype") = py::none())
      .def(
          "__dlpack__", [](const TensorView& view, const py::object&) { return view.DlPack(); },
          py::arg("stream") = py::none(), "A DLPack capsule on the same memory.")
      .def("__dlpack_device__",
           [](const TensorView& view) { return DlPackDevice(view.tensor().place()); });
}

}  // namespace tandem::python
