// cuDNN's descriptors and errors.
#pragma once

#include <memory>

#include "kernels/ops/cuda_launch.h"

namespace tandem {

inline Status DnnStatus(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return OkStatus();
  return Internal("cuDNN, %s: %s", what, cudnnGetErrorString(status));
}

template <typename Descriptor>
using OwnedDnn = std::shared_ptr<std::remove_pointer_t<Descriptor>>;

template <typename Descriptor>
StatusOr<OwnedDnn<Descriptor>> MakeDnn(cudnnStatus_t (*create)(Descriptor*),
                                       cudnnStatus_t (*destroy)(Descriptor)) {
  Descriptor descriptor = nullptr;
  TD_RETURN_IF_ERROR(DnnStatus(create(&descriptor), "descriptor"));
  return OwnedDnn<Descriptor>(descriptor, destroy);
}

inline cudnnDataType_t DnnTypeOf(DType dtype) {
  return dtype == DType::kF16    ? CUDNN_DATA_HALF
         : dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_FLOAT;
}

}  // namespace tandem
