// CUDA kernel of sample_image, which is defined in sample_image.cc. One thread computes one pixel
// of the result.
#include "kernels/ops/conv/sample_image.h"
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/formulas/sample_image.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t count, size, pixel_bytes;
  bool channels_last;
  float scale[3], bias[3];  // factors and offsets by channel; `scale` is for values times 65536
};

struct Inputs {
  const uint8_t* pixels;
  const PackedImage* images;
  const int32_t* taps;
};

// Finds the row and column taps of pixel (n, y, x). Returns false and records a fault if the image
// or a tap is invalid.
__device__ bool Place(const State& s, const Inputs& in, int64_t n, int64_t y, int64_t x,
                      ImageTap* row, ImageTap* column, CudaFault* fault) {
  if (!LiesIn(in.images[n], s.size, s.pixel_bytes)) {
    Blame(fault, CudaFault::kImage, n, 0, 0);
    return false;
  }
  const int64_t first = n * 2 * s.size, at_row = first + y, at_column = first + s.size + x;
  *row = TapOf(in.taps[at_row]);
  *column = TapOf(in.taps[at_column]);
  const bool row_lies = LiesIn(*row, in.images[n].height);
  const bool both_lie = row_lies && LiesIn(*column, in.images[n].width);
  if (!both_lie) {
    const int64_t at = row_lies ? at_column : at_row;
    Blame(fault, CudaFault::kTap, at, in.taps[at], n);
  }
  return both_lie;
}

template <typename T>
Status Run(State& state, const KernelArgs& args) {
  const State s = state;
  const Inputs in = {In<uint8_t>(args, 0), In<PackedImage>(args, 1), In<int32_t>(args, 2)};
  T* out = Out<T>(args, 0);
  CudaFault* fault = StreamOf(args).fault;
  return ForEach(args, s.count * s.size * s.size, [=] __device__(int64_t i) {
    const int64_t line = Quotient(i, s.size), x = i - line * s.size;
    const int64_t n = Quotient(line, s.size), y = line - n * s.size;
    ImageTap row, column;
    if (!Place(s, in, n, y, x, &row, &column, fault)) return;
    const PackedImage image = in.images[n];
    const uint8_t* upper = in.pixels + image.begin + (row.at * image.width + column.at) * 3;
    const uint8_t* lower = row.at + 1 < image.height ? upper + image.width * 3 : upper;
    const int next = column.at + 1 < image.width ? 3 : 0;
    const int64_t step = s.channels_last ? 1 : s.size * s.size;
    T* to = out + (s.channels_last ? i * 3 : i + 2 * n * step);
    for (int c = 0; c < 3; ++c) {
      const int left = upper[c] * (256 - row.weight) + lower[c] * row.weight;
      const int right = upper[c + next] * (256 - row.weight) + lower[c + next] * row.weight;
      const int value = left * (256 - column.weight) + right * column.weight;
      to[c * step] = Narrow<T>(static_cast<float>(value) * s.scale[c] + s.bias[c]);
    }
  });
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const SampledImages images, SampledImagesOf(view));
  const ImageForm& form = images.form;
  State s{images.count, form.size, images.pixel_bytes, form.channels_last, {}, {}};
  for (size_t c = 0; c < 3; ++c) {
    s.scale[c] = form.scale[c] / 65536.0f;
    s.bias[c] = form.bias[c];
  }
  switch (view.out(0).dtype) {
    case DType::kF32:
      return MakeKernel<State, Run<float>>(s);
    case DType::kF16:
      return MakeKernel<State, Run<__half>>(s);
    case DType::kBF16:
      return MakeKernel<State, Run<__nv_bfloat16>>(s);
    default:
      return Unimplemented("this kernel supports only floating-point images");
  }
}

}  // namespace

std::vector<KernelRegistration> SampleImageCudaRows() {
  return {{"sample_image", {{"cuda", Prepare}}}};
}

}  // namespace tandem::ops
