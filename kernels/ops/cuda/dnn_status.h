// cuDNN's errors, types and descriptors with ownership. Kernels and code that is compiled only for
// the host use this header.
#pragma once

#include <absl/strings/str_format.h>
#include <cudnn.h>

#include <memory>
#include <string>
#include <type_traits>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem::ops {

// Converts cuDNN's status. UNIMPLEMENTED: cuDNN does not support the case, but another kernel may.
inline Status DnnStatus(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return OkStatus();
  char why[256] = "";
  cudnnGetLastErrorString(why, sizeof(why));
  const std::string text =
      absl::StrFormat("cuDNN, %s: %s %s", what, cudnnGetErrorString(status), why);
  // Each kind of cuDNN error has a range of this many numbers, one number per reason.
  constexpr int kReasons = 1000;
  const bool unserved =
      status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_NOT_SUPPORTED + kReasons;
  return unserved ? Unimplemented("%s", text) : Internal("%s", text);
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

}  // namespace tandem::ops
