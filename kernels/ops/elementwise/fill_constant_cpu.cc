#include <algorithm>

#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

struct State {
  TensorDesc desc;
  double value;
};

template <typename T>
void Fill(void* out, const State& s) {
  std::fill_n(static_cast<T*>(out), s.desc.shape.numel(), static_cast<T>(s.value));
}

Status Run(State& s, const KernelArgs& args) {
  switch (s.desc.dtype) {
    case DType::kF32:
      Fill<float>(args.out[0], s);
      return OkStatus();
    case DType::kI32:
      Fill<int32_t>(args.out[0], s);
      return OkStatus();
    case DType::kI64:
      Fill<int64_t>(args.out[0], s);
      return OkStatus();
    case DType::kU8:
      Fill<uint8_t>(args.out[0], s);
      return OkStatus();
    default:
      return Internal("fill_constant cannot write element type %s", Name(s.desc.dtype));
  }
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State, Run>({view.out(0), view.attr<double>("value")});
}

}  // namespace

constinit const KernelList kFillConstantCpu = {{"plain", Prepare}};

}  // namespace tandem::ops
