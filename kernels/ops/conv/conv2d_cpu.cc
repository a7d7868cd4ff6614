#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_direct.h"
#include "kernels/ops/conv/conv_dnnl.h"
#include "kernels/ops/conv/conv_plain.h"
#include "kernels/ops/conv/conv_search.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"

namespace tandem::ops {
namespace {

Status RunPlain(ConvShape& s, const KernelArgs& args) {
  PlainConv(s, InF32(args, 0), InF32(args, 1), InF32(args, 2), OutF32(args, 0));
  return OkStatus();
}

Status RunPlainGrad(ConvShape& s, const KernelArgs& args) {
  PlainConvGrad(s, InF32(args, 0), InF32(args, 1), InF32(args, 2), OutF32(args, 0), OutF32(args, 1),
                OutF32(args, 2));
  return OkStatus();
}

template <Status (*Body)(ConvShape&, const KernelArgs&)>
StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  if (!s.plain()) return Unimplemented("this kernel supports only layout NCHW");
  return MakeKernel<ConvShape, Body>(s);
}

template <PrepareFn direct, PrepareFn onednn>
StatusOr<Kernel> PrepareDirect(const OpView& view, const PrepareContext& ctx) {
  return UnlessSlower(view, ctx, direct, onednn);
}

// ---- conv2d_relu: a convolution, then relu in the memory of Output ------------------------------

struct ReluEpilogue {
  Kernel conv, relu;
};

Status RunBoth(ReluEpilogue& s, const KernelArgs& args) {
  KernelArgs inner = args;
  inner.state = s.conv.state.get();
  TD_RETURN_IF_ERROR(s.conv.run(inner));
  inner.in = args.out;
  inner.state = s.relu.state.get();
  return s.relu.run(inner);
}

template <PrepareFn conv>
StatusOr<Kernel> WithRelu(const OpView& view, const PrepareContext& ctx) {
  ReluEpilogue both;
  TD_ASSIGN_OR_RETURN(both.conv, conv(view, ctx));
  const Op relu{.type = "relu"};
  const TensorDesc* const image[] = {&view.out(0)};
  TD_ASSIGN_OR_RETURN(both.relu, kReluCpu[0].prepare(OpView(relu, kRelu, image, image), ctx));
  const size_t scratch = std::max(both.conv.scratch_bytes, both.relu.scratch_bytes);
  return MakeKernel<ReluEpilogue, RunBoth>(std::move(both), scratch);
}

}  // namespace

constinit const KernelList kConv2dReluCpu = {
    {"direct", WithRelu<OrWidened<PrepareDirect<PrepareDirectConv, PrepareDnnlConv>>>},
    {"onednn", WithRelu<NativeOrWidened<PrepareDnnlConv>>},
    {"plain", WithRelu<OrWidened<PreparePlain<RunPlain>>>}};

constinit const KernelList kConv2dCpu = {
    {"direct", OrWidened<PrepareDirect<PrepareDirectConv, PrepareDnnlConv>>},
    {"onednn", NativeOrWidened<PrepareDnnlConv>},
    {"plain", OrWidened<PreparePlain<RunPlain>>}};

constinit const KernelList kConv2dGradCpu = {
    {"direct", OrWidened<PrepareDirect<PrepareDirectConvGrad, PrepareDnnlConvGrad>>},
    {"onednn", NativeOrWidened<PrepareDnnlConvGrad>},
    {"plain", OrWidened<PreparePlain<RunPlainGrad>>}};

}  // namespace tandem::ops
