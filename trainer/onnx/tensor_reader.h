// Reads the tensors of an ONNX model.
#pragma once

#include "common/tensor/tensor.h"
#include "trainer/onnx/external_data.h"

namespace tandem::onnx {

// Returns the type that stores elements of ONNX's type `type`: FLOAT, INT64 and INT32 are
// unchanged, BOOL becomes f32 with 0 and 1. UNIMPLEMENTED: any other type.
StatusOr<DType> OnnxElementType(int type);

// DATA_LOSS: numbers are missing. This is checked before memory is allocated.
StatusOr<Tensor> ReadOnnxTensor(const ::onnx::TensorProto& proto, OnnxExternalData& external,
                                Device& host);

}  // namespace tandem::onnx
