#include "kernels/ops/conv/conv_product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/ops/cpu/dnnl_program.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

using Desc = dnnl::memory::desc;

// Describes a row-major matrix [rows, cols] to oneDNN. `transposed`: the matrix is stored in
// transposed form.
Desc Matrix(int64_t rows, int64_t cols, bool transposed = false) {
  return {{rows, cols},
          DnnlType::bf16,
          transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{cols, 1}};
}

// Adds the product out = x y. If `bias` >= 0, memory `bias` is a row that is added to each row of
// out. All arguments are indices of memory objects of the program.
void AddProduct(DnnlProgram& program, int x, int y, int bias, int out) {
  const auto desc = [&program](int memory) { return program.DescOf(memory); };
  const auto op = bias >= 0 ? dnnl::matmul::desc(desc(x), desc(y), desc(bias), desc(out))
                            : dnnl::matmul::desc(desc(x), desc(y), desc(out));
  const dnnl::matmul::primitive_desc pd(op, UserScratchpad(), program.engine());
  program.Add(
      dnnl::matmul(pd),
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, y}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, out}},
      pd.scratchpad_desc());
}

bool IsServed(const ConvShape& s, DType dtype) {
  return dtype == DType::kBF16 && s.groups == 1 && !s.relu_first &&
         s.in_layout == ImageLayout::kLast && s.out_layout == ImageLayout::kLast &&
         dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
}

// Returns true for 1x1 filters with stride 1 and no padding, which use each pixel exactly once.
bool SeesPixels(const ConvShape& s) {
  const auto is = [](const int64_t(&pair)[2], int64_t value) {
    return pair[0] == value && pair[1] == value;
  };
  return is(s.kernel, 1) && is(s.stride, 1) && is(s.pad, 0);
}

int64_t Pixels(const ConvShape& s) { return s.batch * s.out_plane(); }

}  // namespace

bool IsPointwise(const ConvShape& s, DType dtype) { return IsServed(s, dtype) && SeesPixels(s); }

void AddPointwiseOutput(DnnlProgram& program, const ConvShape& s, bool with_bias) {
  const int bias = with_bias ? program.In(2, PlainDesc({1, s.out_c})) : -1;
  AddProduct(program, program.In(0, Matrix(Pixels(s), s.in_c)),
             program.In(1, Matrix(s.in_c, s.out_c, /*transposed=*/true)), bias,
             program.Out(0, Matrix(Pixels(s), s.out_c)));
}

void AddPointwiseInputGrad(DnnlProgram& program, const ConvShape& s) {
  AddProduct(program, program.In(2, Matrix(Pixels(s), s.out_c)),
             program.In(1, Matrix(s.out_c, s.in_c)), -1, program.Out(0, Matrix(Pixels(s), s.in_c)));
}

Columns::Columns(const ConvShape& s, int threads)
    : s_(s),
      trivial_(SeesPixels(s)),
      parts_(PartsFor(threads, static_cast<int64_t>(bytes() / sizeof(float)))) {}

size_t Columns::bytes() const {
  return trivial_ ? 0 : static_cast<size_t>(Pixels(s_) * s_.taps()) * sizeof(uint16_t);
}

bool Columns::Serve(const ConvShape& s, DType dtype) {
  if (!IsServed(s, dtype) || s.in_c < kLayoutBlock) return false;
  const bool one = s.kernel[0] == 1 && s.kernel[1] == 1;
  return one || s.stride[1] > 1 || s.out[1] < 28;
}

void Columns::Gather(const void* input, void* columns) const {
  const auto* in = static_cast<const uint16_t*>(input);
  const auto c = static_cast<size_t>(s_.in_c);
  ParallelFor(parts_, s_.batch * s_.out[0], [&](int, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t n = row / s_.out[0], oh = row % s_.out[0];
      auto* to = static_cast<uint16_t*>(columns) + row * s_.out[1] * s_.taps();
      for (int64_t ow = 0; ow < s_.out[1]; ++ow) {
        for (int64_t kh = 0; kh < s_.kernel[0]; ++kh) {
          const int64_t h = oh * s_.stride[0] + kh * s_.dilation[0] - s_.pad[0];
          for (int64_t kw = 0; kw < s_.kernel[1]; ++kw, to += c) {
            const int64_t w = ow * s_.stride[1] + kw * s_.dilation[1] - s_.pad[1];
            if (h < 0 || h >= s_.in[0] || w < 0 || w >= s_.in[1]) {
              std::fill_n(to, c, uint16_t{0});
            } else {
              std::memcpy(to, in + ((n * s_.in[0] + h) * s_.in[1] + w) * s_.in_c,
                          c * sizeof(uint16_t));
            }
          }
        }
      }
    }
  });
}

void AddFilterGradOfColumns(DnnlProgram& program, const ConvShape& s, int columns) {
  const int grad = program.In(2, Matrix(s.out_c, Pixels(s), /*transposed=*/true));
  const int seen = program.In(columns, Matrix(Pixels(s), s.taps()));
  if (s.kernel[0] == 1 && s.kernel[1] == 1) {
    return AddProduct(program, grad, seen, -1, program.Out(1, Matrix(s.out_c, s.taps())));
  }
  // A row of the product is a filter in the order [kh, kw, c]. The operator stores filters in the
  // order [c, kh, kw].
  const int product = program.Scratch(Matrix(s.out_c, s.taps()));
  AddProduct(program, grad, seen, -1, product);
  const std::vector<int64_t> dims = {s.out_c, s.in_c, s.kernel[0], s.kernel[1]};
  program.Copy(program.View(product, ImageDesc(dims, ImageLayout::kLast, DnnlType::bf16)),
               program.Out(1, PlainDesc(dims, DnnlType::bf16)));
}

}  // namespace tandem::ops
