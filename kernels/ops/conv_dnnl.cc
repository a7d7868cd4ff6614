#include "kernels/ops/conv_dnnl.h"

#include <memory>

#include "kernels/ops/conv2d.h"
#include "kernels/ops/dnnl_program.h"

namespace tandem {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using dnnl::algorithm;

// oneDNN's description of a convolution. The padding at the end is what the last window reaches.
struct Problem {
  Dims src, filter, dst, strides, dilations, pad_begin, pad_end;
  int64_t out_c;
  ImageLayout in_layout, out_layout;
  bool winograd;

  DnnlType type;

  Problem(const ConvShape& s, DnnlType data)
      : src{s.batch, s.in_c, s.in[0], s.in[1]},
        filter{s.out_c, s.in_c / s.groups, s.kernel[0], s.kernel[1]},
        dst{s.batch, s.out_c, s.out[0], s.out[1]},
        out_c(s.out_c),
        in_layout(s.in_layout),
        out_layout(s.out_layout),
        winograd(s.winograd && data == DnnlType::f32),
        type(data) {
    if (s.groups > 1) {
      filter = {s.groups, s.out_c / s.groups, s.in_c / s.groups, s.kernel[0], s.kernel[1]};
    }
    for (int d = 0; d < 2; ++d) {
      strides.push_back(s.stride[d]);
      dilations.push_back(s.dilation[d] - 1);
      pad_begin.push_back(s.pad[d]);
      const int64_t reach = (s.out[d] - 1) * s.stride[d] + s.dilation[d] * (s.kernel[d] - 1) + 1;
      pad_end.push_back(reach - s.in[d] - s.pad[d]);
    }
  }

  Desc Any(const Dims& dims) const { return {dims, type, dnnl::memory::format_tag::any}; }
  Desc bias() const { return PlainDesc({out_c}); }
  // As the operator's tensors lie in memory.
  Desc filter_desc() const { return PlainDesc(filter, type); }
  Desc src_desc() const { return ImageDesc(src, in_layout, type); }
  Desc dst_desc() const { return ImageDesc(dst, out_layout, type); }

  dnnl::convolution_forward::primitive_desc Forward(const dnnl::engine& engine, bool with_bias,
                                                    algorithm how) const {
    const auto kind = dnnl::prop_kind::forward_training;
    const auto desc =
        with_bias
            ? dnnl::convolution_forward::desc(kind, how, Any(src), Any(filter), bias(), Any(dst),
                                              strides, dilations, pad_begin, pad_end)
            : dnnl::convolution_forward::desc(kind, how, Any(src), Any(filter), Any(dst), strides,
                                              dilations, pad_begin, pad_end);
    return {desc, UserScratchpad(), engine};
  }

  dnnl::convolution_backward_data::primitive_desc InputGrad(const dnnl::engine& engine,
                                                            algorithm how) const {
    const dnnl::convolution_backward_data::desc desc(how, Any(src), Any(filter), Any(dst), strides,
                                                     dilations, pad_begin, pad_end);
    return {desc, UserScratchpad(), engine, Forward(engine, false, how)};
  }

  dnnl::convolution_backward_weights::primitive_desc FilterGrad(const dnnl::engine& engine,
                                                                bool with_bias,
                                                                algorithm how) const {
    using Desc = dnnl::convolution_backward_weights::desc;
    const Desc desc = with_bias ? Desc(how, Any(src), Any(filter), bias(), Any(dst), strides,
                                       dilations, pad_begin, pad_end)
                                : Desc(how, Any(src), Any(filter), Any(dst), strides, dilations,
                                       pad_begin, pad_end);
    return {desc, UserScratchpad(), engine, Forward(engine, with_bias, how)};
  }

  // make(algorithm) with Winograd's where it is wanted and serves, else with the direct one.
  template <typename Make>
  auto Choose(const Make& make) const {
    if (winograd) {
      try {
        return make(algorithm::convolution_winograd);
      } catch (const dnnl::error&) {  // not for this shape, or not on this machine
      }
    }
    return make(algorithm::convolution_direct);
  }
};

// `memory` where its layout is `wanted`, else scratch memory; the caller copies that back.
int Target(DnnlProgram& program, int memory, const Desc& wanted) {
  return program.DescOf(memory) == wanted ? memory : program.Scratch(wanted);
}

void AddForward(DnnlProgram& program, const Problem& p, int src, int filter, int bias, int out) {
  const auto pd =
      p.Choose([&](algorithm how) { return p.Forward(program.engine(), bias >= 0, how); });
  src = program.Reordered(src, pd.src_desc());
  filter = program.Reordered(filter, pd.weights_desc());
  const int dst = Target(program, out, pd.dst_desc());
  program.Add(
      dnnl::convolution_forward(pd),
      {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, dst}},
      pd.scratchpad_desc());
  program.Copy(dst, out);
}

void AddInputGrad(DnnlProgram& program, const Problem& p, int filter, int diff_dst, int out) {
  const auto& engine = program.engine();
  const auto pd = p.Choose([&](algorithm how) { return p.InputGrad(engine, how); });
  filter = program.Reordered(filter, pd.weights_desc());
  diff_dst = program.Reordered(diff_dst, pd.diff_dst_desc());
  const int diff_src = Target(program, out, pd.diff_src_desc());
  program.Add(
      dnnl::convolution_backward_data(pd),
      {{DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DIFF_DST, diff_dst}, {DNNL_ARG_DIFF_SRC, diff_src}},
      pd.scratchpad_desc());
  program.Copy(diff_src, out);
}

// `out`, `bias`: -1 where that gradient is not needed.
void AddFilterGrad(DnnlProgram& program, const Problem& p, int src, int diff_dst, int out,
                   int bias) {
  const auto& engine = program.engine();
  const auto pd = p.Choose([&](algorithm how) { return p.FilterGrad(engine, bias >= 0, how); });
  src = program.Reordered(src, pd.src_desc());
  diff_dst = program.Reordered(diff_dst, pd.diff_dst_desc());
  const int result = out >= 0 ? out : program.Scratch(p.filter_desc());
  const int diff_filter = Target(program, result, pd.diff_weights_desc());
  program.Add(dnnl::convolution_backward_weights(pd),
              {{DNNL_ARG_SRC, src},
               {DNNL_ARG_DIFF_DST, diff_dst},
               {DNNL_ARG_DIFF_WEIGHTS, diff_filter},
               {DNNL_ARG_DIFF_BIAS, bias}},
              pd.scratchpad_desc());
  if (out >= 0) program.Copy(diff_filter, out);
}

// relu of `memory`, in scratch memory.
int AddRelu(DnnlProgram& program, int memory) {
  const Desc desc = program.DescOf(memory);
  const dnnl::eltwise_forward::desc op(dnnl::prop_kind::forward_training, algorithm::eltwise_relu,
                                       desc, 0.0f);
  const dnnl::eltwise_forward::primitive_desc pd(op, UserScratchpad(), program.engine());
  const int out = program.Scratch(desc);
  program.Add(dnnl::eltwise_forward(pd), {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, out}},
              pd.scratchpad_desc());
  return out;
}

// `grad`, the gradient of relu(x), becomes that of x.
void AddReluGrad(DnnlProgram& program, int x, int grad) {
  const Desc desc = program.DescOf(x);
  const dnnl::eltwise_forward::desc forward(dnnl::prop_kind::forward_training,
                                            algorithm::eltwise_relu, desc, 0.0f);
  const dnnl::eltwise_backward::desc op(algorithm::eltwise_relu, desc, desc, 0.0f);
  const dnnl::eltwise_backward::primitive_desc pd(
      op, UserScratchpad(), program.engine(),
      dnnl::eltwise_forward::primitive_desc(forward, program.engine()));
  program.Add(dnnl::eltwise_backward(pd),
              {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, grad}, {DNNL_ARG_DIFF_SRC, grad}},
              pd.scratchpad_desc());
}

void BuildForward(DnnlProgram& program, const Problem& p, const ConvShape& s, bool with_bias) {
  int src = program.In(0, p.src_desc());
  if (s.relu_first) src = AddRelu(program, src);
  AddForward(program, p, src, program.In(1, p.filter_desc()),
             with_bias ? program.In(2, p.bias()) : -1, program.Out(0, p.dst_desc()));
}

void BuildGrad(DnnlProgram& program, const Problem& p, const ConvShape& s, const OpView& view) {
  const int x = program.In(0, p.src_desc()), g = program.In(2, p.dst_desc());
  if (view.has_out(0)) {
    const int out = program.Out(0, p.src_desc());
    AddInputGrad(program, p, program.In(1, p.filter_desc()), g, out);
    if (s.relu_first) AddReluGrad(program, x, out);
  }
  if (view.has_out(1) || view.has_out(2)) {
    AddFilterGrad(program, p, s.relu_first ? AddRelu(program, x) : x, g,
                  view.has_out(1) ? program.Out(1, p.filter_desc()) : -1,
                  view.has_out(2) ? program.Out(2, p.bias()) : -1);
  }
}

Status Run(DnnlProgram& program, const KernelArgs& args) { return program.Run(args); }

Kernel ToKernel(DnnlProgram program) {
  const size_t scratch = program.scratch_bytes();
  return MakeKernel<DnnlProgram, Run>(std::move(program), scratch);
}

void BuildTranspose(DnnlProgram& program, const Problem& p) {
  AddInputGrad(program, p, program.In(1, p.filter_desc()), program.In(0, p.dst_desc()),
               program.Out(0, p.src_desc()));
}

void BuildTransposeGrad(DnnlProgram& program, const Problem& p, const OpView& view) {
  const int g = program.In(2, p.src_desc());
  if (view.has_out(0)) {
    AddForward(program, p, g, program.In(1, p.filter_desc()), -1, program.Out(0, p.dst_desc()));
  }
  if (view.has_out(1)) {
    AddFilterGrad(program, p, g, program.In(0, p.dst_desc()), program.Out(1, p.filter_desc()), -1);
  }
}

Status CheckShape(const ConvShape& s) {
  if (s.batch >= 1 && s.in_c >= 1 && s.out_c >= 1) return OkStatus();
  return Unimplemented("an empty convolution");
}

// The kernel that build(program, problem, shape) makes.
template <typename Build>
StatusOr<Kernel> Prepare(const OpView& view, const StatusOr<ConvShape>& shape,
                         const PrepareContext& ctx, const Build& build) {
  TD_RETURN_IF_ERROR(CheckDnnlTypes(view));
  TD_RETURN_IF_ERROR(shape.status());
  TD_RETURN_IF_ERROR(CheckShape(*shape));
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& program) {
                        build(program, Problem(*shape, DnnlTypeOf(view.in(0).dtype)), *shape);
                      }));
  return ToKernel(std::move(program));
}

}  // namespace

StatusOr<Kernel> PrepareDnnlConv(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ConvShapeOf(view), ctx,
                 [&](DnnlProgram& program, const Problem& p, const ConvShape& s) {
                   BuildForward(program, p, s, view.has_in(2));
                 });
}

StatusOr<Kernel> PrepareDnnlConvGrad(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ConvShapeOf(view), ctx,
                 [&](DnnlProgram& program, const Problem& p, const ConvShape& s) {
                   BuildGrad(program, p, s, view);
                 });
}

StatusOr<Kernel> PrepareDnnlConvTranspose(const OpView& view, const PrepareContext& ctx) {
  return Prepare(
      view, ConvTransposeShapeOf(view), ctx,
      [](DnnlProgram& program, const Problem& p, const ConvShape&) { BuildTranspose(program, p); });
}

StatusOr<Kernel> PrepareDnnlConvTransposeGrad(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ConvTransposeShapeOf(view), ctx,
                 [&](DnnlProgram& program, const Problem& p, const ConvShape&) {
                   BuildTransposeGrad(program, p, view);
                 });
}

}  // namespace tandem
