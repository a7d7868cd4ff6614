#include "kernels/ops/conv/conv_dnnl.h"
#include "kernels/ops/core/kernel_settings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>

#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_product.h"
#include "kernels/ops/conv/conv_search.h"
#include "kernels/ops/cpu/dnnl_program.h"

namespace tandem::ops {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using dnnl::algorithm;

// A convolution as oneDNN describes it. pad_end is the padding that the last window needs.
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
  // Returns the memory descriptions of filter, input and output, as the operator stores them.
  Desc filter_desc() const { return PlainDesc(filter, type); }
  Desc src_desc() const { return ImageDesc(src, in_layout, type); }
  Desc dst_desc() const { return ImageDesc(dst, out_layout, type); }

  dnnl::convolution_forward::desc ForwardDesc(bool with_bias, algorithm how) const {
    using Op = dnnl::convolution_forward::desc;
    const auto kind = dnnl::prop_kind::forward_training;
    return with_bias ? Op(kind, how, Any(src), Any(filter), bias(), Any(dst), strides, dilations,
                          pad_begin, pad_end)
                     : Op(kind, how, Any(src), Any(filter), Any(dst), strides, dilations, pad_begin,
                          pad_end);
  }
  dnnl::convolution_forward::primitive_desc Hint(const dnnl::engine& engine, bool with_bias,
                                                 algorithm how) const {
    return {ForwardDesc(with_bias, how), UserScratchpad(), engine};
  }

  // The ForEach functions call visit(primitive descriptor) for the implementations of algorithm
  // `how`, in oneDNN's order. They stop and return true when visit returns true. oneDNN moves to
  // the next implementation with the operation description from which the first descriptor was
  // made.
  template <typename Visit>
  bool ForEachOutput(const dnnl::engine& engine, bool with_bias, algorithm how,
                     const Visit& visit) const {
    const auto op = ForwardDesc(with_bias, how);
    return Walk(dnnl::convolution_forward::primitive_desc(op, UserScratchpad(), engine), visit);
  }

  template <typename Visit>
  bool ForEachInputGrad(const dnnl::engine& engine, algorithm how, const Visit& visit) const {
    const dnnl::convolution_backward_data::desc op(how, Any(src), Any(filter), Any(dst), strides,
                                                   dilations, pad_begin, pad_end);
    const auto hint = Hint(engine, false, how);
    return Walk(dnnl::convolution_backward_data::primitive_desc(op, UserScratchpad(), engine, hint),
                visit);
  }

  template <typename Visit>
  bool ForEachFilterGrad(const dnnl::engine& engine, bool with_bias, algorithm how,
                         const Visit& visit) const {
    using Op = dnnl::convolution_backward_weights::desc;
    const Op op = with_bias ? Op(how, Any(src), Any(filter), bias(), Any(dst), strides, dilations,
                                 pad_begin, pad_end)
                            : Op(how, Any(src), Any(filter), Any(dst), strides, dilations,
                                 pad_begin, pad_end);
    const auto hint = Hint(engine, with_bias, how);
    return Walk(
        dnnl::convolution_backward_weights::primitive_desc(op, UserScratchpad(), engine, hint),
        visit);
  }

 private:
  template <typename Descriptor, typename Visit>
  static bool Walk(Descriptor descriptor, const Visit& visit) {
    do {
      if (visit(descriptor)) return true;
    } while (descriptor.next_impl());
    return false;
  }
};

// Returns memory object `memory` if its layout is `wanted`. Otherwise returns new scratch memory;
// the caller must copy the content of this scratch memory to `memory`.
int Target(DnnlProgram& program, int memory, const Desc& wanted) {
  return program.DescOf(memory) == wanted ? memory : program.Scratch(wanted);
}

void AddForward(DnnlProgram& program, const dnnl::convolution_forward::primitive_desc& pd, int src,
                int filter, int bias, int out) {
  src = program.Reordered(src, pd.src_desc());
  filter = program.Reordered(filter, pd.weights_desc());
  const int dst = Target(program, out, pd.dst_desc());
  program.Add(
      dnnl::convolution_forward(pd),
      {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, dst}},
      pd.scratchpad_desc());
  program.Copy(dst, out);
}

void AddInputGrad(DnnlProgram& program, const dnnl::convolution_backward_data::primitive_desc& pd,
                  int filter, int diff_dst, int out) {
  filter = program.Reordered(filter, pd.weights_desc());
  diff_dst = program.Reordered(diff_dst, pd.diff_dst_desc());
  const int diff_src = Target(program, out, pd.diff_src_desc());
  program.Add(
      dnnl::convolution_backward_data(pd),
      {{DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DIFF_DST, diff_dst}, {DNNL_ARG_DIFF_SRC, diff_src}},
      pd.scratchpad_desc());
  program.Copy(diff_src, out);
}

// Adds the computation of the filter's gradient. `bias`: memory of the bias gradient; -1: none.
void AddFilterGrad(DnnlProgram& program,
                   const dnnl::convolution_backward_weights::primitive_desc& pd, int src,
                   int diff_dst, int out, int bias) {
  src = program.Reordered(src, pd.src_desc());
  diff_dst = program.Reordered(diff_dst, pd.diff_dst_desc());
  const int diff_filter = Target(program, out, pd.diff_weights_desc());
  program.Add(dnnl::convolution_backward_weights(pd),
              {{DNNL_ARG_SRC, src},
               {DNNL_ARG_DIFF_DST, diff_dst},
               {DNNL_ARG_DIFF_WEIGHTS, diff_filter},
               {DNNL_ARG_DIFF_BIAS, bias}},
              pd.scratchpad_desc());
  program.Copy(diff_filter, out);
}

// Adds the computation of relu(`memory`). Returns the scratch memory that gets the result.
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

// Changes `grad`, in place, from the gradient of relu(x) to the gradient of x.
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

Status Run(DnnlProgram& program, const KernelArgs& args) { return program.Run(args); }

Kernel ToKernel(DnnlProgram program) {
  const size_t scratch = program.scratch_bytes();
  return MakeKernel<DnnlProgram, Run>(std::move(program), scratch);
}

// The operator whose kernel is being prepared.
struct Case {
  const OpView& view;
  const PrepareContext& ctx;
  const ConvShape& s;
  const Problem p;
};

// Calls walk(algorithm, visit) for each algorithm until one call returns true. walk calls
// visit(descriptor) for each implementation. Winograd's algorithm comes first, if the operator
// requests it, then the direct algorithm. A search for f32 always tries both algorithms.
template <typename Walk, typename Visit>
void ForEachImplementation(const Case& c, const Walk& walk, const Visit& visit) {
  const bool all = c.ctx.settings.conv.search != nullptr && c.p.type == DnnlType::f32;
  for (const algorithm how : {algorithm::convolution_winograd, algorithm::convolution_direct}) {
    if (how == algorithm::convolution_winograd && !all && !c.p.winograd) continue;
    try {
      if (walk(how, visit)) return;
    } catch (const dnnl::error&) {  // this shape or this machine does not support the algorithm
    }
  }
}

// Measures every implementation. add(program, descriptor) adds one implementation to an empty
// program.
template <typename Walk, typename Add>
StatusOr<std::vector<ConvMeasurement>> MeasureAll(const DnnlProgram& program, const Case& c,
                                                  const Walk& walk, const Add& add) {
  std::vector<ConvMeasurement> all;
  Status status;
  double best = std::numeric_limits<double>::infinity();
  const auto measure = [&](const auto& descriptor) -> bool {
    const std::string name = descriptor.impl_info_str();
    // Skip oneDNN's plain loops, which are many times slower.
    if (name.starts_with("ref") && !all.empty()) return false;
    DnnlProgram trial = program.Emptied();
    add(trial, descriptor);
    const Kernel kernel = ToKernel(std::move(trial));
    const StatusOr<double> us = MeasureKernel(kernel, c.view, best);
    status = us.status();
    if (!status.ok()) return true;
    all.push_back({name, *us, kernel.scratch_bytes});
    best = std::min(best, *us);
    return false;
  };
  ForEachImplementation(c, walk, measure);
  TD_RETURN_IF_ERROR(status);
  return all;
}

// Adds one part of the operator with add(program, descriptor). Uses the fastest implementation of a
// search. Without a search, uses the first implementation whose scratch memory is within the limit.
template <typename Walk, typename Add>
Status AddPart(DnnlProgram& program, const Case& c, const char* part, const Walk& walk,
               const Add& add) {
  std::string fastest;
  if (c.ctx.settings.conv.search != nullptr) {
    TD_ASSIGN_OR_RETURN(
        fastest,
        c.ctx.settings.conv.search->Fastest(
            CpuMachine(c.ctx.threads), absl::StrFormat("%s of %s", part, ConvProblem(c.view)),
            c.ctx.settings.conv.scratch_max, [&] { return MeasureAll(program, c, walk, add); }));
  }
  program.ReuseScratch();
  bool added = false, tried = false;
  const auto take = [&](const auto& descriptor) -> bool {
    const std::string name = descriptor.impl_info_str();
    if (!fastest.empty() && name != fastest) return false;
    // Skip oneDNN's plain loops, because Tandem's own plain loops are as good.
    if (tried && name.starts_with("ref")) return false;
    DnnlProgram attempt = program;
    add(attempt, descriptor);
    tried = true;
    added = attempt.scratch_used() <= c.ctx.settings.conv.scratch_max;
    if (added) program = std::move(attempt);
    return added;
  };
  ForEachImplementation(c, walk, take);
  if (added) return OkStatus();
  return tried ? Unimplemented("oneDNN needs more scratch memory than conv_workspace_size_limit")
               : Unimplemented("oneDNN has no algorithm for this convolution");
}

Status BuildForward(DnnlProgram& program, const Case& c) {
  const Problem& p = c.p;
  const bool with_bias = c.view.has_in(2);
  if (IsPointwise(c.s, c.view.in(0).dtype)) {
    AddPointwiseOutput(program, c.s, with_bias);
    return OkStatus();
  }
  return AddPart(
      program, c, "output",
      [&](algorithm how, const auto& visit) {
        return p.ForEachOutput(program.engine(), with_bias, how, visit);
      },
      [&](DnnlProgram& d, const auto& descriptor) {
        const int x = d.In(0, p.src_desc());
        AddForward(d, descriptor, c.s.relu_first ? AddRelu(d, x) : x, d.In(1, p.filter_desc()),
                   with_bias ? d.In(2, p.bias()) : -1, d.Out(0, p.dst_desc()));
      });
}

Status BuildInputGrad(DnnlProgram& program, const Case& c) {
  const Problem& p = c.p;
  if (IsPointwise(c.s, c.view.in(0).dtype)) {
    AddPointwiseInputGrad(program, c.s);
    return OkStatus();
  }
  return AddPart(
      program, c, "input's gradient",
      [&](algorithm how, const auto& visit) {
        return p.ForEachInputGrad(program.engine(), how, visit);
      },
      [&](DnnlProgram& d, const auto& descriptor) {
        const int out = d.Out(0, p.src_desc());
        AddInputGrad(d, descriptor, d.In(1, p.filter_desc()), d.In(2, p.dst_desc()), out);
        if (c.s.relu_first) AddReluGrad(d, d.In(0, p.src_desc()), out);
      });
}

// Index of the im2col matrix among the kernel's inputs, after the inputs of the operator.
constexpr int kColumns = 3;

// Returns the columns from which the filter's gradient is computed. nullopt: oneDNN's own
// algorithms compute the gradient.
std::optional<Columns> ColumnsFor(const OpView& view, const ConvShape& s,
                                  const PrepareContext& ctx) {
  const bool wanted = view.has_out(1) && !view.has_out(2);
  if (!wanted || !Columns::Serve(s, view.in(0).dtype)) return std::nullopt;
  const Columns columns(s, ctx.threads);
  if (columns.bytes() > ctx.settings.conv.scratch_max) return std::nullopt;
  return columns;
}

Status BuildFilterGrad(DnnlProgram& program, const Case& c) {
  const Problem& p = c.p;
  const bool of_bias = c.view.has_out(2);
  if (const auto columns = ColumnsFor(c.view, c.s, c.ctx)) {
    program.ReuseScratch();
    AddFilterGradOfColumns(program, c.s, columns->trivial() ? 0 : kColumns);
    return OkStatus();
  }
  return AddPart(
      program, c, "filter's gradient",
      [&](algorithm how, const auto& visit) {
        return p.ForEachFilterGrad(program.engine(), of_bias, how, visit);
      },
      [&](DnnlProgram& d, const auto& descriptor) {
        const int x = d.In(0, p.src_desc());
        const int out = c.view.has_out(1) ? d.Out(1, p.filter_desc()) : d.Scratch(p.filter_desc());
        AddFilterGrad(d, descriptor, c.s.relu_first ? AddRelu(d, x) : x, d.In(2, p.dst_desc()), out,
                      of_bias ? d.Out(2, p.bias()) : -1);
      });
}

Status BuildGrad(DnnlProgram& program, const Case& c) {
  if (c.view.has_out(0)) TD_RETURN_IF_ERROR(BuildInputGrad(program, c));
  if (!c.view.has_out(1) && !c.view.has_out(2)) return OkStatus();
  return BuildFilterGrad(program, c);
}

// The output of a transposed convolution is computed as the input gradient of a convolution.
Status BuildTranspose(DnnlProgram& program, const Case& c) {
  const Problem& p = c.p;
  return AddPart(
      program, c, "output",
      [&](algorithm how, const auto& visit) {
        return p.ForEachInputGrad(program.engine(), how, visit);
      },
      [&](DnnlProgram& d, const auto& descriptor) {
        AddInputGrad(d, descriptor, d.In(1, p.filter_desc()), d.In(0, p.dst_desc()),
                     d.Out(0, p.src_desc()));
      });
}

Status BuildTransposeGrad(DnnlProgram& program, const Case& c) {
  const Problem& p = c.p;
  if (c.view.has_out(0)) {
    TD_RETURN_IF_ERROR(AddPart(
        program, c, "input's gradient",
        [&](algorithm how, const auto& visit) {
          return p.ForEachOutput(program.engine(), false, how, visit);
        },
        [&](DnnlProgram& d, const auto& descriptor) {
          AddForward(d, descriptor, d.In(2, p.src_desc()), d.In(1, p.filter_desc()), -1,
                     d.Out(0, p.dst_desc()));
        }));
  }
  if (!c.view.has_out(1)) return OkStatus();
  return AddPart(
      program, c, "filter's gradient",
      [&](algorithm how, const auto& visit) {
        return p.ForEachFilterGrad(program.engine(), false, how, visit);
      },
      [&](DnnlProgram& d, const auto& descriptor) {
        AddFilterGrad(d, descriptor, d.In(2, p.src_desc()), d.In(0, p.dst_desc()),
                      d.Out(1, p.filter_desc()), -1);
      });
}

Status CheckShape(const ConvShape& s) {
  if (s.batch >= 1 && s.in_c >= 1 && s.out_c >= 1) return OkStatus();
  return Unimplemented("this kernel does not support an empty convolution");
}

// A program that has the columns as an additional input.
struct ColumnsState {
  DnnlProgram program;
  Columns columns;
  size_t columns_at;  // offset of the columns in scratch memory, after the program's scratch
};

Status RunWithColumns(ColumnsState& s, const KernelArgs& args) {
  std::byte* const columns = static_cast<std::byte*>(args.scratch) + s.columns_at;
  s.columns.Gather(args.in[0], columns);
  const std::array<const void*, kColumns + 1> in = {args.in[0], args.in[1], args.in[2], columns};
  KernelArgs inner = args;
  inner.in = in.data();
  return s.program.Run(inner);
}

// Returns the program that `build` fills for the operator `view`.
StatusOr<DnnlProgram> Build(const OpView& view, const StatusOr<ConvShape>& shape,
                            const PrepareContext& ctx,
                            Status (*build)(DnnlProgram& program, const Case& c)) {
  TD_RETURN_IF_ERROR(CheckDnnlTypes(view));
  TD_RETURN_IF_ERROR(shape.status());
  TD_RETURN_IF_ERROR(CheckShape(*shape));
  Status built;
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& program) {
                        const DnnlType type = DnnlTypeOf(view.in(0).dtype);
                        built = build(program, {view, ctx, *shape, Problem(*shape, type)});
                      }));
  TD_RETURN_IF_ERROR(built);
  return program;
}

StatusOr<Kernel> Prepare(const OpView& view, const StatusOr<ConvShape>& shape,
                         const PrepareContext& ctx,
                         Status (*build)(DnnlProgram& program, const Case& c)) {
  TD_ASSIGN_OR_RETURN(DnnlProgram program, Build(view, shape, ctx, build));
  return ToKernel(std::move(program));
}

}  // namespace

StatusOr<Kernel> PrepareDnnlConv(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ConvShapeOf(view), ctx, BuildForward);
}

StatusOr<Kernel> PrepareDnnlConvGrad(const OpView& view, const PrepareContext& ctx) {
  const StatusOr<ConvShape> shape = ConvShapeOf(view);
  TD_ASSIGN_OR_RETURN(DnnlProgram program, Build(view, shape, ctx, BuildGrad));
  const auto columns = ColumnsFor(view, *shape, ctx);
  if (!columns || columns->trivial()) return ToKernel(std::move(program));
  constexpr size_t kAlign = 64;
  const size_t at = (program.scratch_bytes() + kAlign - 1) / kAlign * kAlign;
  return MakeKernel<ColumnsState, RunWithColumns>({std::move(program), *columns, at},
                                                  at + columns->bytes());
}

StatusOr<Kernel> PrepareDnnlConvTranspose(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ConvTransposeShapeOf(view), ctx, BuildTranspose);
}

StatusOr<Kernel> PrepareDnnlConvTransposeGrad(const OpView& view, const PrepareContext& ctx) {
  return Prepare(view, ConvTransposeShapeOf(view), ctx, BuildTransposeGrad);
}

}  // namespace tandem::ops
