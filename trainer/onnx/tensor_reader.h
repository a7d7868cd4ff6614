// Reads the tensors of an ONNX model.
#pragma once

#include "common/tensor/tensor.h"
#include "trainer/onnx/external_data.h"

namespace tandem::onnx {

// Returns the type in which Tandem stores elements of ONNX's type `type`. FLOAT, INT64 and INT32
// stay unchanged. BOOL becomes f32 with the values 0 and 1. UNIMPLEMENTED: `type` is another type.
StatusOr<DType> ElementTypeOf(int type);

// Reads a tensor into memory of `host`. DATA_LOSS: the tensor has fewer numbers than its shape
// needs. ReadTensor checks the size before it allocates the memory.
StatusOr<Tensor> ReadTensor(const ::onnx::TensorProto& proto, ExternalData& external, Device& host);

}  // namespace tandem::onnx
