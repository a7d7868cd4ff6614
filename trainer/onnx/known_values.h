// The values of an ONNX graph that are known while the model is read: its tensors, and all values
// that depend only on them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "common/tensor/types.h"
#include "trainer/onnx/external_data.h"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace tandem::onnx {

// One number that is known while a model is read. A table of integers uses the field `whole`. A
// table of floats or truth values uses the field `number`.
struct KnownNumber {
  int64_t whole = 0;  // may be kBatch + k, a size that depends on the batch
  double number = 0;  // 0 or 1 for a truth value
  int64_t slope = 0;  // the integer of sample i is `whole` plus i times the slope
};

// Known numbers in the form in which Evaluate (evaluate.h) computes nodes.
struct KnownTable {
  bool whole = false;  // true: the numbers are integers
  bool wide = false;  // true: the numbers are f64 (DOUBLE); false: AddTable rounds fractions to f32
  Shape shape;
  // The dimension that is the batch; -1: there is none. In `shape` this dimension has size 1. The
  // numbers of different samples differ only by KnownNumber::slope.
  int batch = -1;
  std::vector<KnownNumber> numbers;
};

struct KnownValue {
  Tensor tensor;
  bool trained = false;  // the value becomes a parameter if it is used as a variable
  // True: all numbers are equal. PyTorch's exporter stores equal parameters (for example those of
  // untrained normalisations) as one initializer. Therefore each use of such an initializer becomes
  // a separate variable.
  bool uniform = false;
  // The dimension that is the batch, and the slopes of the numbers (KnownTable, KnownNumber). An
  // empty list means that all slopes are 0.
  int batch = -1;
  std::vector<int64_t> slopes;
  // The numbers of a DOUBLE tensor before they were rounded to f32 in `tensor`. Empty: the tensor
  // has another type, or `trained` is true.
  std::vector<double> wide;
};

// Maps names of values in the graph to known tensors. Not thread-safe.
class KnownValues {
 public:
  // `external` and `host` must outlive this object.
  KnownValues(ExternalData& external, Device& host) : external_(external), host_(host) {}

  // Adds a tensor of the model under the name `value`. `trained`: the tensor may become a
  // parameter.
  Status AddConstant(const std::string& value, const ::onnx::TensorProto& tensor, bool trained);
  // Adds a tensor of any type under the name `value`. The tensor was computed while the model was
  // read.
  void Add(const std::string& value, Tensor tensor);
  // Adds integers under the name `value`. The integers were computed while the model was read.
  Status AddInts(const std::string& value, const std::vector<int64_t>& ints);
  // Adds element `index` of the first dimension of a known value as a new value. Returns the name
  // of the new value. UNIMPLEMENTED: `value` is not known. REQUIRES: the dimension has this
  // element.
  StatusOr<std::string> AddPart(const std::string& value, int64_t index);

  // Adds numbers under the name `value`. The numbers were computed while the model was read.
  // UNIMPLEMENTED: a number of a wide table is beyond the range of f32.
  Status AddTable(const std::string& value, const KnownTable& table);
  // Returns the numbers if `value` is known, no parameter, and has at most `most` elements.
  std::optional<KnownTable> Table(const std::string& value, int64_t most) const;

  // Get and Find return the known value `value`. nullptr: the value is not known, because a node of
  // the program computes it, or it does not exist. Find, Scalar and Untrained also return nullptr
  // if a dimension of the value is the batch.
  const KnownValue* Get(const std::string& value) const;
  const Tensor* Find(const std::string& value) const;
  // Returns the number if `value` is a known single float and no parameter. An example is a float
  // of a Constant node. nullptr: any other value.
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
