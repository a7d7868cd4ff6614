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

  explicit Problem(const ConvShape& s)
      : src{s.batch, s.in_c, s.in[0], s.in[1]},
        filter{s.out_c, s.in_c / s.groups, s.kernel[0], s.kernel[1]},
        dst{s.batch, s.out_c, s.out[0], s.out[1]},
        out_c(s.out_c) {
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

  static Desc Any(const Dims& dims) {
    return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
  }
  Desc bias() const { return PlainDesc({out_c}); }

  dnnl::convolution_forward::primitive_desc Forward(const dnnl::engine& engine,
                                                    bool with_bias) const {
    const auto kind = dnnl::prop_kind::forward_training;
    const auto direct = algorithm::convolution_direct;
    const auto desc =
        with_bias
            ? dnnl::convolution_forward::desc(kind, direct, Any(src), Any(filter), bias(), Any(dst),
                                              strides, dilations, pad_begin, pad_end)
            : dnnl::convolution_forward::desc(kind, direct, Any(src), Any(filter), Any(dst),
                                              strides, dilations, pad_begin, pad_end);
    return {desc, UserScratchpad(), engine};
  }
};

void AddForward(DnnlProgram& program, const Problem& p, bool with_bias) {
  const auto pd = p.Forward(program.engine(), with_bias);
  const int src = program.Reordered(program.In(0, PlainDesc(p.src)), pd.src_desc());
  const int filter = program.Reordered(program.In(1, PlainDesc(p.filter)), pd.weights_desc());
  const int bias = with_bias ? program.In(2, p.bias()) : -1;
  const int out = program.Out(0, PlainDesc(p.dst));
  const int dst = pd.dst_desc() == PlainDesc(p.dst) ? out : program.Scratch(pd.dst_desc());
  program.Add(
      dnnl::convolution_forward(pd),
      {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, dst}},
      pd.scratchpad_desc());
  program.Copy(dst, out);
}

void AddInputGrad(DnnlProgram& program, const Problem& p, int filter, int diff_dst) {
  const dnnl::convolution_backward_data::desc desc(algorithm::convolution_direct, p.Any(p.src),
                                                   p.Any(p.filter), p.Any(p.dst), p.strides,
                                                   p.dilations, p.pad_begin, p.pad_end);
  const dnnl::convolution_backward_data::primitive_desc pd(desc, UserScratchpad(), program.engine(),
                                                           p.Forward(program.engine(), false));
  filter = program.Reordered(filter, pd.weights_desc());
  diff_dst = program.Reordered(diff_dst, pd.diff_dst_desc());
  const int out = program.Out(0, PlainDesc(p.src));
  const int diff_src =
      pd.diff_src_desc() == PlainDesc(p.src) ? out : program.Scratch(pd.diff_src_desc());
  program.Add(
      dnnl::convolution_backward_data(pd),
      {{DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DIFF_DST, diff_dst}, {DNNL_ARG_DIFF_SRC, diff_src}},
      pd.scratchpad_desc());
  program.Copy(diff_src, out);
}

void AddFilterGrad(DnnlProgram& program, const Problem& p, int src, int diff_dst, bool need_filter,
                   bool need_bias) {
  using Backward = dnnl::convolution_backward_weights;
  const auto direct = algorithm::convolution_direct;
  const Backward::desc desc =
      need_bias ? Backward::desc(direct, p.Any(p.src), p.Any(p.filter), p.bias(), p.Any(p.dst),
                                 p.strides, p.dilations, p.pad_begin, p.pad_end)
                : Backward::desc(direct, p.Any(p.src), p.Any(p.filter), p.Any(p.dst), p.strides,
                                 p.dilations, p.pad_begin, p.pad_end);
  const Backward::primitive_desc pd(desc, UserScratchpad(), program.engine(),
                                    p.Forward(program.engine(), need_bias));
  src = program.Reordered(src, pd.src_desc());
  diff_dst = program.Reordered(diff_dst, pd.diff_dst_desc());
  const Desc plain = PlainDesc(p.filter);
  const int out = need_filter ? program.Out(1, plain) : program.Scratch(plain);
  const int diff_filter =
      pd.diff_weights_desc() == plain ? out : program.Scratch(pd.diff_weights_desc());
  program.Add(Backward(pd),
              {{DNNL_ARG_SRC, src},
               {DNNL_ARG_DIFF_DST, diff_dst},
               {DNNL_ARG_DIFF_WEIGHTS, diff_filter},
               {DNNL_ARG_DIFF_BIAS, need_bias ? program.Out(2, p.bias()) : -1}},
              pd.scratchpad_desc());
  if (need_filter) program.Copy(diff_filter, out);
}

Status Run(DnnlProgram& program, const KernelArgs& args) { return program.Run(args); }

Kernel ToKernel(DnnlProgram program) {
  const size_t scratch = program.scratch_bytes();
  return MakeKernel<DnnlProgram, Run>(std::move(program), scratch);
}

Status CheckShape(const ConvShape& s) {
  if (s.batch >= 1 && s.in_c >= 1 && s.out_c >= 1) return OkStatus();
  return Unimplemented("an empty convolution");
}

}  // namespace

StatusOr<Kernel> PrepareDnnlConv(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  TD_RETURN_IF_ERROR(CheckShape(s));
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& p) {
                        AddForward(p, Problem(s), view.has_in(2));
                      }));
  return ToKernel(std::move(program));
}

StatusOr<Kernel> PrepareDnnlConvGrad(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  TD_RETURN_IF_ERROR(CheckShape(s));
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& p) {
                        const Problem problem(s);
                        const int g = p.In(2, PlainDesc(problem.dst));
                        if (view.has_out(0)) {
                          AddInputGrad(p, problem, p.In(1, PlainDesc(problem.filter)), g);
                        }
                        if (view.has_out(1) || view.has_out(2)) {
                          AddFilterGrad(p, problem, p.In(0, PlainDesc(problem.src)), g,
                                        view.has_out(1), view.has_out(2));
                        }
                      }));
  return ToKernel(std::move(program));
}

}  // namespace tandem
