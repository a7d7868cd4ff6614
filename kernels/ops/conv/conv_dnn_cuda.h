// Convolutions by cuDNN. cuDNN's descriptors and plans are made when a kernel is prepared.
#pragma once

#include "kernels/ops/conv/conv_dnn_part_cuda.h"

namespace tandem::ops {

// Transposes filters for cuDNN. A filter is stored as [k, c, taps]; cuDNN needs [k, taps, c].
struct FilterTransposer {
  int64_t filters = 0, channels = 0, taps = 0;
  size_t element_bytes = 0;

  bool turns() const { return filters > 0; }
  size_t bytes() const { return static_cast<size_t>(filters * channels * taps) * element_bytes; }
  // Converts a filter to the order of cuDNN, or from that order if `back` is true.
  Status Turn(const KernelArgs& args, const void* from, void* to, bool back) const;
  template <typename Bits>
  Status TurnAs(const KernelArgs& args, const void* from, void* to, bool back) const;
};

// A convolution like PlainConvolution, computed by cuDNN. All tensors must have the same layout. If
// this layout has channels last, cuDNN also needs filters with channels last. Therefore filters are
// transposed in scratch memory.
class DnnConvolution {
 public:
  static StatusOr<DnnConvolution> Make(const OpView& view, const ConvShape& s,
                                       const PrepareContext& ctx, const ConvParts& parts);

  DnnConvolution() = default;
  size_t workspace() const { return turned_at() + filter_.bytes(); }
  Status Forward(const KernelArgs& args, const void* x, const void* w, void* y,
                 const float* bias = nullptr) {
    TD_ASSIGN_OR_RETURN(w, ForDnn(args, w));
    return output_.Run(Work(args), d_, x, w, y, bias);
  }
  // Returns true if Forward applies the epilogue to the output.
  bool fused() const { return output_.fused(); }
  Status Input(const KernelArgs& args, const void*, const void* w, const void* gy, void* gx) {
    TD_ASSIGN_OR_RETURN(w, ForDnn(args, w));
    return input_grad_.Run(Work(args), d_, w, gy, gx);
  }
  Status Filter(const KernelArgs& args, const void* x, const void* gy, void* gw) {
    if (!filter_.turns()) return filter_grad_.Run(Work(args), d_, x, gy, gw);
    TD_RETURN_IF_ERROR(filter_grad_.Run(Work(args), d_, x, gy, Turned(args)));
    return filter_.Turn(args, Turned(args), gw, /*back=*/true);
  }

 private:
  // Returns the offset of the transposed filter in scratch memory, after cuDNN's workspace.
  size_t turned_at() const {
    return (workspace_ + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
  }
  void* Turned(const KernelArgs& args) const {
    return static_cast<std::byte*>(args.scratch) + turned_at();
  }
  StatusOr<const void*> ForDnn(const KernelArgs& args, const void* w) const {
    if (!filter_.turns()) return w;
    TD_RETURN_IF_ERROR(filter_.Turn(args, w, Turned(args), /*back=*/false));
    return Turned(args);
  }
  DnnWork Work(const KernelArgs& args) const {
    return {StreamOf(args).dnn, args.scratch, workspace_};
  }
  Status Describe(const ConvShape& s, DType dtype, cudnnTensorFormat_t format);

  size_t workspace_ = 0;  // size of cuDNN's workspace in bytes
  FilterTransposer filter_;
  DnnConvDescriptors d_;
  DnnConvPart<DnnOutput> output_;
  DnnConvPart<DnnInputGrad> input_grad_;
  DnnConvPart<DnnFilterGrad> filter_grad_;
};

}  // namespace tandem::ops
