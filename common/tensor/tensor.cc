#include "common/tensor/tensor.h"

namespace tandem {

StatusOr<Tensor> Tensor::Make(const TensorDesc& desc, Device& device) {
  TD_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(desc.bytes()));
  return Tensor(desc, device.place(), std::move(buffer));
}

}  // namespace tandem
