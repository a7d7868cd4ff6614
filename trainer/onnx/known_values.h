// The values of an ONNX graph that are known while the model is read: its tensors, and all values
// that depend only on them.
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
  bool trained = false;  // the value becomes a parameter if it is used as a variable
  // True: all numbers are equal. PyTorch's exporter stores equal parameters (for example those of
  // untrained normalisations) as one initializer. Each use of such an initializer therefore becomes
  // a separate variable.
  bool uniform = false;
};

// Maps values of the graph to known tensors. Not thread-safe.
class KnownValues {
 public:
  // `external` and `host` must outlive this object.
  KnownValues(ExternalData& external, Device& host) : external_(external), host_(host) {}

  // Adds a tensor of the model as value `value`. `trained`: the tensor may become a parameter.
  Status AddConstant(const std::string& value, const ::onnx::TensorProto& tensor, bool trained);
  // Adds a tensor of any type that was computed while the model was read, as value `value`.
  void Add(const std::string& value, Tensor tensor);
  // Adds integers that were computed while the model was read, as value `value`.
  Status AddInts(const std::string& value, const std::vector<int64_t>& ints);
  // Adds element `index` of the first dimension of a known value as a new value. Returns the name
  // of the new value. UNIMPLEMENTED: `value` is not known. REQUIRES: the dimension has this
  // element.
  StatusOr<std::string> AddPart(const std::string& value, int64_t index);

  // Return the known value; nullptr: `value` is computed by a node, or does not exist.
  const KnownValue* Get(const std::string& value) const;
  const Tensor* Find(const std::string& value) const;
  // Returns the number if `value` is known, a single float and no parameter. Examples are a float
  // without dimensions and a float of a Constant node. nullptr: any other value.
  const float* Scalar(const std::string& value) const;
  // Returns the tensor if `value` is known and no parameter; nullptr: any other value.
  const Tensor* Untrained(const std::string& value) const;

  StatusOr<Tensor> NewTensor(DType dtype, const Shape& shape) const;
  Device& host() const { return host_; }

 private:
  ExternalData& external_;
  Device& host_;
  std::map<std::string, KnownValue, std::less<>> values_;
};

}  // namespace tandem::onnx
