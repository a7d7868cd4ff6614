// Tensors of an ONNX model.
#pragma once

#include "common/tensor/tensor.h"
#include "trainer/onnx/external_data.h"

namespace tandem::onnx {

// The type in which elements of ONNX's type `type` are kept: FLOAT, INT64 and INT32 as they are,
// BOOL as f32, 0 and 1. UNIMPLEMENTED for others.
StatusOr<DType> OnnxElementType(int type);

// DATA_LOSS where numbers are missing, before memory is taken for them.
StatusOr<Tensor> ReadOnnxTensor(const ::onnx::TensorProto& proto, OnnxExternalData& external,
                                Device& host);

}  // namespace tandem::onnx
