#include "kernels/ops/conv/pool2d_dnnl.h"

#include "kernels/ops/conv/pool2d.h"
#include "kernels/ops/cpu/dnnl_program.h"

namespace tandem::ops {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using dnnl::algorithm;

struct Problem {
  Dims x, out, kernel, strides, pad_begin, pad_end;
  algorithm how;
  DnnlType type;

  Problem(const PoolShape& s, const TensorDesc& input) : type(DnnlTypeOf(input.dtype)) {
    const Shape& shape = input.shape;
    x = {shape[0], shape[1], s.in[0], s.in[1]};
    out = {shape[0], shape[1], s.out[0], s.out[1]};
    for (int d = 0; d < 2; ++d) {
      kernel.push_back(s.kernel[d]);
      strides.push_back(s.stride[d]);
      pad_begin.push_back(s.pad[d]);
      pad_end.push_back((s.out[d] - 1) * s.stride[d] + s.kernel[d] - s.in[d] - s.pad[d]);
    }
    how = s.max         ? algorithm::pooling_max
          : s.exclusive ? algorithm::pooling_avg_exclude_padding
                        : algorithm::pooling_avg_include_padding;
  }
  Desc x_desc() const { return ImageDesc(x, ImageLayout::kLast, type); }
  Desc out_desc() const { return ImageDesc(out, ImageLayout::kLast, type); }
  dnnl::pooling_forward::primitive_desc Forward(const dnnl::engine& engine) const {
    const dnnl::pooling_forward::desc desc(dnnl::prop_kind::forward_training, how, x_desc(),
                                           out_desc(), strides, kernel, pad_begin, pad_end);
    return {desc, UserScratchpad(), engine};
  }
};

// Adds the pooling. Returns its workspace memory, which contains the positions of the largest
// elements. -1: an average needs no workspace.
int AddForward(DnnlProgram& program, const Problem& p, int x, int out) {
  const auto pd = p.Forward(program.engine());
  const bool remembers = p.how == algorithm::pooling_max;
  const int workspace = remembers ? program.Scratch(pd.workspace_desc()) : -1;
  program.Add(dnnl::pooling_forward(pd),
              {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, out}, {DNNL_ARG_WORKSPACE, workspace}},
              pd.scratchpad_desc());
  return workspace;
}

// The forward kernel does not store the workspace. Therefore the gradient of max pooling runs the
// pooling again.
void BuildGrad(DnnlProgram& program, const Problem& p) {
  const bool remembers = p.how == algorithm::pooling_max;
  const int workspace =
      remembers ? AddForward(program, p, program.In(0, p.x_desc()), program.Scratch(p.out_desc()))
                : -1;
  const dnnl::pooling_backward::desc desc(p.how, p.x_desc(), p.out_desc(), p.strides, p.kernel,
                                          p.pad_begin, p.pad_end);
  const dnnl::pooling_backward::primitive_desc pd(desc, UserScratchpad(), program.engine(),
                                                  p.Forward(program.engine()));
  program.Add(dnnl::pooling_backward(pd),
              {{DNNL_ARG_DIFF_DST, program.In(2, p.out_desc())},
               {DNNL_ARG_DIFF_SRC, program.Out(0, p.x_desc())},
               {DNNL_ARG_WORKSPACE, workspace}},
              pd.scratchpad_desc());
}

Status Run(DnnlProgram& program, const KernelArgs& args) { return program.Run(args); }

template <typename Build>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx, const Build& build) {
  TD_RETURN_IF_ERROR(CheckDnnlTypes(view));
  TD_ASSIGN_OR_RETURN(const PoolShape s, PoolShapeOf(view));
  if (s.layout != ImageLayout::kLast)
    return Unimplemented("this kernel does not support layout %s, expected NHWC",
                         view.attr<std::string>("data_layout"));
  if (view.in(0).shape.numel() == 0)
    return Unimplemented("this kernel does not support empty tensors");
  TD_ASSIGN_OR_RETURN(DnnlProgram program,
                      BuildDnnl(ctx, [&](DnnlProgram& p) { build(p, Problem(s, view.in(0))); }));
  const size_t scratch = program.scratch_bytes();
  return MakeKernel<DnnlProgram, Run>(std::move(program), scratch);
}

}  // namespace

StatusOr<Kernel> PrepareDnnlPool(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ctx, [](DnnlProgram& program, const Problem& p) {
    AddForward(program, p, program.In(0, p.x_desc()), program.Out(0, p.out_desc()));
  });
}

StatusOr<Kernel> PrepareDnnlPoolGrad(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ctx, BuildGrad);
}

}  // namespace tandem::ops
