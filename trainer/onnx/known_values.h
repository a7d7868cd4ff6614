// The values of an ONNX graph that are known while the model is read: its tensors, and what follows
// from them alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "trainer/onnx/external_data.h"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace tandem::onnx {

struct KnownValue {
  Tensor tensor;
  bool trained = false;  // it becomes a parameter if it is used as a variable
  // All numbers are equal. PyTorch's exporter stores equal parameters, such as those of untrained
  // normalisations, as one initializer. So each use of such an initializer becomes a separate
  // variable.
  bool uniform = false;
};

// Not thread-safe.
class KnownValues {
 public:
  // Both must outlive this object.
  KnownValues(ExternalData& external, Device& host) : external_(external), host_(host) {}

  // Adds a tensor of the model as value `value`.
  Status AddConstant(const std::string& value, const ::onnx::TensorProto& tensor, bool trained);
  // Adds numbers of any type that were computed while the model was read.
  void Add(const std::string& value, Tensor tensor);
  // Adds integers that were computed while the model was read.
  Status AddInts(const std::string& value, const std::vector<int64_t>& ints);
  // Adds part `index` of known numbers along the first dimension as a new value, and returns the
  // value's name. UNIMPLEMENTED: `value` is not known. REQUIRES: there is such a part.
  StatusOr<std::string> AddPart(const std::string& value, int64_t index);

  // nullptr: `value` is computed or unknown.
  const KnownValue* Get(const std::string& value) const;
  const Tensor* Find(const std::string& value) const;
  // Returns a known float that is not a parameter: one without dimensions, or one of a Constant
  // node. nullptr: any other value.
  const float* Scalar(const std::string& value) const;
  // Returns known numbers that are not a parameter; nullptr: any other value.
  const Tensor* Untrained(const std::string& value) const;

  StatusOr<Tensor> NewTensor(DType dtype, const Shape& shape) const;
  Device& host() const { return host_; }

 private:
  ExternalData& external_;
  Device& host_;
  std::map<std::string, KnownValue, std::less<>> values_;
};

}  // namespace tandem::onnx
