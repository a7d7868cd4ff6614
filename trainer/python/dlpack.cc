#include "trainer/python/dlpack.h"

#include <cstdint>
#include <vector>

#include "common/base/require.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

constexpr int kCpuDevice = 1, kCudaDevice = 2;  // values of DLDeviceType
constexpr const char* kFresh = "dltensor";      // name of a capsule until a consumer renames it

// The structures of dlpack.h. Their fields have the names of dlpack.h.
struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;  // DLDataTypeCode. 0: int, 1: unsigned int, 2: float, 4: bfloat
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // distances in elements; nullptr: row-major
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64, "the ABI of DLPack 0.x");

struct Shared {
  Tensor tensor;
  std::shared_ptr<void> owner;
  std::vector<int64_t> dims;
  DLManagedTensor managed;
};

DLDataType TypeOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * SizeOf(dtype));
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
      return {2, bits, 1};
    case DType::kBF16:
      return {4, bits, 1};
    case DType::kU8:
      return {1, bits, 1};
    case DType::kI32:
    case DType::kI64:
      break;
  }
  return {0, bits, 1};
}

void Delete(DLManagedTensor* self) {
  const std::unique_ptr<Shared> owned(static_cast<Shared*>(self->manager_ctx));
}

// Frees the tensor of a capsule that no consumer has used.
void DeleteCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kFresh) == 0) return;
  auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  managed->deleter(managed);
}

}  // namespace

py::capsule DlPackCapsule(const Tensor& tensor, std::shared_ptr<void> owner) {
  TD_REQUIRE(tensor.place().kind == PlaceKind::kCpu);
  const auto dims = tensor.shape().dims();
  auto shared =
      std::make_unique<Shared>(Shared{tensor, std::move(owner), {dims.begin(), dims.end()}, {}});
  shared->managed = {.dl_tensor = {.data = tensor.data(),
                                   .device = {kCpuDevice, 0},
                                   .ndim = tensor.shape().rank(),
                                   .dtype = TypeOf(tensor.dtype()),
                                   .shape = shared->dims.data(),
                                   .strides = nullptr,
                                   .byte_offset = 0},
                     .manager_ctx = shared.get(),
                     .deleter = Delete};
  PyObject* const capsule = PyCapsule_New(&shared->managed, kFresh, DeleteCapsule);
  if (capsule == nullptr) throw py::error_already_set();
  (void)shared.release();  // the deleter of the capsule or of its consumer destroys the object
  return py::reinterpret_steal<py::capsule>(capsule);
}

std::pair<int, int> DlPackDevice(const Place& place) {
  return {place.kind == PlaceKind::kCpu ? kCpuDevice : kCudaDevice, place.index};
}

}  // namespace tandem::python
