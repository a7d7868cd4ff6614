#include "trainer/python/attrs.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainer/python/errors.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

constexpr const char* kTypeNames[] = {"None", "bool",         "int",           "float",
                                      "str",  "list of ints", "list of floats"};
static_assert(std::variant_size_v<ops::Attr> == std::size(kTypeNames));

// The types of an attribute. Each value is the index of its type in the variant ops::Attr.
enum Kind : size_t { kNone, kBool, kInt, kFloat, kText, kInts, kFloats };

bool IsBool(py::handle value) {
  return PyBool_Check(value.ptr()) ||
         py::str(py::type::of(value).attr("__name__")).cast<std::string>() == "bool_";
}
bool IsInt(py::handle value) { return !IsBool(value) && PyIndex_Check(value.ptr()) != 0; }
bool IsNumber(py::handle value) {
  return !IsBool(value) && !py::isinstance<py::str>(value) && PyNumber_Check(value.ptr()) != 0;
}
bool IsList(py::handle value) {
  return py::isinstance<py::sequence>(value) && !py::isinstance<py::str>(value) &&
         !py::isinstance<py::bytes>(value);
}

template <typename Fn>
bool AllOf(py::handle list, Fn fn) {
  const auto sequence = py::reinterpret_borrow<py::sequence>(list);
  return std::all_of(sequence.begin(), sequence.end(), fn);
}

// Returns the kind of `value` according to its Python type. If several kinds fit, returns `wanted`
// if it is one of them. kNone: no kind fits.
Kind KindOf(py::handle value, Kind wanted) {
  if (IsBool(value)) return kBool;
  if (IsInt(value)) return wanted == kFloat ? kFloat : kInt;
  if (py::isinstance<py::str>(value)) return kText;
  if (IsList(value)) {
    if (wanted != kFloats && AllOf(value, IsInt)) return kInts;
    return AllOf(value, IsNumber) ? kFloats : kNone;
  }
  return IsNumber(value) ? kFloat : kNone;
}

int64_t Int(py::handle value) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) throw py::error_already_set();
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) {
    throw StatusError(InvalidArgument("attribute: %s does not fit 64 bits [TD1206]",
                                      py::str(index).cast<std::string>()));
  }
  return number;
}

double Float(py::handle value) {
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Float(value.ptr()));
  if (!number) throw py::error_already_set();
  return number.cast<double>();
}

template <typename T, typename Fn>
std::vector<T> Each(py::handle list, Fn fn) {
  std::vector<T> all;
  for (const py::handle item : py::reinterpret_borrow<py::sequence>(list)) all.push_back(fn(item));
  return all;
}

ops::Attr FromPython(py::handle value, Kind kind) {
  switch (kind) {
    case kBool:
      return py::bool_(py::reinterpret_borrow<py::object>(value)).cast<bool>();
    case kInt:
      return Int(value);
    case kFloat:
      return Float(value);
    case kText:
      return value.cast<std::string>();
    case kInts:
      return Each<int64_t>(value, Int);
    case kFloats:
      return Each<double>(value, Float);
    case kNone:
      break;
  }
  return {};
}

Kind DeclaredKind(const ops::OpDef& def, const std::string& name) {
  for (const ops::AttrDef& attr : def.attrs) {
    if (name == attr.name) return static_cast<Kind>(attr.default_value.index());
  }
  return kNone;
}

}  // namespace

py::object ToPython(const ops::Attr& value) {
  return std::visit(
      [](const auto& v) -> py::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>)
          return py::none();
        else
          return py::cast(v);
      },
      value);
}

StatusOr<ops::AttrMap> AttrsFromPython(const ops::OpDef& def, const py::dict& given) {
  ops::AttrMap attrs;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    const Kind wanted = DeclaredKind(def, name);
    const Kind kind = KindOf(value, wanted);
    if (kind == kNone || (wanted != kNone && kind != wanted)) {
      return InvalidArgument(
          "%s: attribute \"%s\" is %s, expected %s [TD1206]", def.type, name,
          py::repr(value).cast<std::string>(),
          wanted == kNone ? "a bool, a number, a str or a list of numbers" : kTypeNames[wanted]);
    }
    attrs[name] = FromPython(value, kind);
  }
  return attrs;
}

}  // namespace tandem::python
