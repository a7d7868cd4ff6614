#include "kernels/ops/conv/conv_plain_cuda.h"

namespace tandem::ops {
namespace {

// Returns input element x[at] as f32, after relu if s.relu_first is set.
template <typename T>
__device__ float SeenByFilter(const ConvShape& s, const T* x, int64_t at) {
  const float v = Wide(x[at]);
  return s.relu_first && 0.0f > v ? 0.0f : v;
}

// Returns the output index along dimension `d` to which input index `at` contributes through filter
// index `i`. -1: no output index.
__device__ int64_t OutputThrough(const ConvShape& s, int d, int64_t at, int64_t i) {
  const int64_t reach = at + s.pad[d] - i * s.dilation[d];
  if (reach < 0 || reach % s.stride[d] != 0) return -1;
  const int64_t out = reach / s.stride[d];
  return out < s.out[d] ? out : -1;
}

}  // namespace

template <typename T>
PlainConvolution<T>::PlainConvolution(const ConvShape& s)
    : s_(s),
      x_{s.in_c, s.in[0], s.in[1], s.in_layout == ImageLayout::kLast},
      y_{s.out_c, s.out[0], s.out[1], s.out_layout == ImageLayout::kLast} {}

template <typename T>
StatusOr<PlainConvolution<T>> PlainConvolution<T>::Make(const OpView&, const ConvShape& s,
                                                        const PrepareContext&, const ConvParts&) {
  const bool blocked =
      s.in_layout == ImageLayout::kBlocked || s.out_layout == ImageLayout::kBlocked;
  if (blocked) return Unimplemented("this kernel does not support layout nChw16c");
  return PlainConvolution(s);
}

template <typename T>
Status PlainConvolution<T>::Forward(const KernelArgs& args, const void* input, const void* filter,
                                    void* output) const {
  const ConvShape s = s_;
  const T *x = static_cast<const T*>(input), *w = static_cast<const T*>(filter);
  T* y = static_cast<T*>(output);
  const CudaImages in = x_, out = y_;
  return ForEach(args, s.batch * s.out_c * s.out_plane(), [=] __device__(int64_t at) {
    const CudaImages::Place p = out.PlaceOf(at);
    const int64_t channels = s.in_c / s.groups;
    const int64_t first = p.c / (s.out_c / s.groups) * channels;
    float sum = 0.0f;
    for (int64_t c = 0; c < channels; ++c) {
      const T* plane = x + in.Plane(p.n, first + c);
      const T* taps = w + (p.c * channels + c) * s.kernel[0] * s.kernel[1];
      for (int64_t i = 0; i < s.kernel[0]; ++i) {
        const int64_t row = p.y * s.stride[0] - s.pad[0] + i * s.dilation[0];
        if (row < 0 || row >= s.in[0]) continue;
        for (int64_t j = 0; j < s.kernel[1]; ++j) {
          const int64_t col = p.x * s.stride[1] - s.pad[1] + j * s.dilation[1];
          if (col < 0 || col >= s.in[1]) continue;
          sum += Wide(taps[i * s.kernel[1] + j]) *
                 SeenByFilter(s, plane, row * in.StepY() + col * in.StepX());
        }
      }
    }
    y[at] = Narrow<T>(sum);
  });
}

template <typename T>
Status PlainConvolution<T>::Input(const KernelArgs& args, const void* input, const void* filter,
                                  const void* gradient, void* output) const {
  const ConvShape s = s_;
  const T *x = static_cast<const T*>(input), *w = static_cast<const T*>(filter);
  const T* gy = static_cast<const T*>(gradient);
  T* gx = static_cast<T*>(output);
  const CudaImages in = x_, out = y_;
  return ForEach(args, s.batch * s.in_c * s.in_plane(), [=] __device__(int64_t at) {
    const CudaImages::Place p = in.PlaceOf(at);
    const int64_t channels = s.in_c / s.groups, filters = s.out_c / s.groups;
    const int64_t group = p.c / channels;
    float sum = 0.0f;
    for (int64_t o = group * filters; o < (group + 1) * filters; ++o) {
      const T* taps = w + (o * channels + p.c - group * channels) * s.kernel[0] * s.kernel[1];
      const T* plane = gy + out.Plane(p.n, o);
      for (int64_t i = 0; i < s.kernel[0]; ++i) {
        const int64_t row = OutputThrough(s, 0, p.y, i);
        if (row < 0) continue;
        for (int64_t j = 0; j < s.kernel[1]; ++j) {
          const int64_t col = OutputThrough(s, 1, p.x, j);
          if (col < 0) continue;
          sum +=
              Wide(taps[i * s.kernel[1] + j]) * Wide(plane[row * out.StepY() + col * out.StepX()]);
        }
      }
    }
    gx[at] = Narrow<T>(s.relu_first && 0.0f > Wide(x[at]) ? 0.0f : sum);
  });
}

template <typename T>
Status PlainConvolution<T>::Filter(const KernelArgs& args, const void* input, const void* gradient,
                                   void* output) const {
  const ConvShape s = s_;
  const T *x = static_cast<const T*>(input), *gy = static_cast<const T*>(gradient);
  T* gw = static_cast<T*>(output);
  const CudaImages in = x_, out = y_, filter = w();
  // Returns the k-th product in the sum that is the gradient of filter weight `at`. There is one
  // product per element of the weight's output channel.
  const auto term = [=] __device__(int64_t at, int64_t k) {
    const CudaImages::Place f = filter.PlaceOf(at);
    const int64_t n = Quotient(k, s.out_plane()), plane = k - n * s.out_plane();
    const int64_t y = Quotient(plane, s.out[1]), col_out = plane - y * s.out[1];
    const int64_t row = y * s.stride[0] - s.pad[0] + f.y * s.dilation[0];
    const int64_t col = col_out * s.stride[1] - s.pad[1] + f.x * s.dilation[1];
    if (row < 0 || row >= s.in[0] || col < 0 || col >= s.in[1]) return 0.0f;
    const int64_t c = f.n / (s.out_c / s.groups) * (s.in_c / s.groups) + f.c;
    return SeenByFilter(s, x, in.At(n, c, row, col)) * Wide(gy[out.At(n, f.n, y, col_out)]);
  };
  return RowSums<float>(args, s.out_c * s.taps(), s.batch * s.out_plane(), term,
                        [=] __device__(int64_t at, float sum) { gw[at] = Narrow<T>(sum); });
}

template class PlainConvolution<float>;
template class PlainConvolution<__half>;
template class PlainConvolution<__nv_bfloat16>;

}  // namespace tandem::ops
