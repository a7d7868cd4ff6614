#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_dnnl.h"
#include "kernels/ops/conv/conv_plain.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"

namespace tandem::ops {
namespace {

// `s` describes the convolution that the operator inverts. The operator's Input is the output of
// this convolution.
Status RunPlain(ConvShape& s, const KernelArgs& args) {
  PlainConvGrad(s, nullptr, InF32(args, 1), InF32(args, 0), OutF32(args, 0), nullptr, nullptr);
  return OkStatus();
}

Status RunPlainGrad(ConvShape& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *filter = InF32(args, 1), *g = InF32(args, 2);
  if (float* gx = OutF32(args, 0)) PlainConv(s, g, filter, nullptr, gx);
  if (float* gfilter = OutF32(args, 1)) {
    PlainConvGrad(s, g, filter, x, nullptr, gfilter, nullptr);
  }
  return OkStatus();
}

template <Status (*Body)(ConvShape&, const KernelArgs&)>
StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvTransposeShapeOf(view));
  return MakeKernel<ConvShape, Body>(s);
}

}  // namespace

constinit const KernelList kConv2dTransposeCpu = {{"onednn", PrepareDnnlConvTranspose},
                                                  {"plain", PreparePlain<RunPlain>}};

constinit const KernelList kConv2dTransposeGradCpu = {{"onednn", PrepareDnnlConvTransposeGrad},
                                                      {"plain", PreparePlain<RunPlainGrad>}};

}  // namespace tandem::ops
