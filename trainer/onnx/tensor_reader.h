// Reads the tensors of an ONNX model.
#pragma once

#include "common/tensor/tensor.h"
#include "trainer/onnx/external_data.h"

namespace tandem::onnx {

// Returns the type that stores elements of ONNX's type `type`: FLOAT, INT64 and INT32 are
// unchanged, BOOL becomes f32 with 0 and 1. UNIMPLEMENTED: any other type.
StatusOr<DType> ElementTypeOf(int type);

// DATA_LOSS: numbers are missing. This is checked before memory is allocated.
StatusOr<Tensor> ReadTensor(const ::onnx::TensorProto& proto, ExternalData& external, Device& host);

}  // namespace tandem::onnx
