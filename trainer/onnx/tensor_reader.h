// Reads the tensors of an ONNX model.
#pragma once

#include <vector>

#include "common/tensor/tensor.h"
#include "trainer/onnx/external_data.h"

namespace tandem::onnx {

// Returns the type in which Tandem stores elements of ONNX's type `type`. FLOAT, INT64 and INT32
// stay unchanged. BOOL becomes f32 with the values 0 and 1. DOUBLE becomes f32, to the nearest
// number. UNIMPLEMENTED: `type` is another type.
StatusOr<DType> ElementTypeOf(int type);

// Reads a tensor into memory of `host`. Sets *wide to the numbers of a DOUBLE tensor, which the
// result has rounded. For other types *wide becomes empty. ReadTensor checks the size before it
// allocates the memory. DATA_LOSS: the tensor has fewer numbers than its shape needs.
// UNIMPLEMENTED: the element type is not supported, or a DOUBLE is beyond the range of f32.
StatusOr<Tensor> ReadTensor(const ::onnx::TensorProto& proto, ExternalData& external, Device& host,
                            std::vector<double>* wide);

// Checks that f32 has a number near each of `numbers`. Infinities and NaN are allowed.
// UNIMPLEMENTED: a number is beyond the range of f32.
Status CheckRange(const std::vector<double>& numbers);

}  // namespace tandem::onnx
