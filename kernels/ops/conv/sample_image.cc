#include "kernels/ops/conv/sample_image.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Channels(const OpView& view, const char* name, std::array<float, 3>& out) {
  const auto values = view.attr<std::vector<double>>(name);
  if (values.size() != 3) return view.Error(absl::StrFormat("%s must have 3 numbers", name));
  for (size_t c = 0; c < 3; ++c) out[c] = static_cast<float>(values[c]);
  return OkStatus();
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const SampledImages s, SampledImagesOf(view));
  const StatusOr<DType> dtype = ParseDType(view.attr<std::string>("out_dtype"));
  if (!dtype.ok() || (*dtype != DType::kF32 && *dtype != DType::kF16 && *dtype != DType::kBF16)) {
    return view.Error("attribute out_dtype must be f32, f16 or bf16");
  }
  const int64_t size = s.form.size;
  outputs[0] = {
      *dtype, s.form.channels_last ? Shape{s.count, size, size, 3} : Shape{s.count, 3, size, size}};
  return OkStatus();
}

}  // namespace

StatusOr<SampledImages> SampledImagesOf(const OpView& view) {
  constexpr int64_t kSizeMax = 4096;
  SampledImages s;
  TD_RETURN_IF_ERROR(NeedRank(view, 2, "Taps", 3));
  s.count = view.in(2).shape[0];
  s.form.size = view.in(2).shape[2];
  if (s.form.size < 1 || s.form.size > kSizeMax) {
    return view.Error(absl::StrFormat(
        "the height and width of the images must be from 1 to %d pixels", kSizeMax));
  }
  if (view.in(2) != TensorDesc{DType::kI32, {s.count, 2, s.form.size}}) {
    return view.Error("input Taps must be i32[n,2,size]");
  }
  if (view.in(1) != TensorDesc{DType::kI64, {s.count, 3}}) {
    return view.Error(absl::StrFormat("input Images must be i64[%d,3]", s.count));
  }
  if (view.in(0).dtype != DType::kU8) return view.Error("input Pixels must have element type u8");
  s.pixel_bytes = view.in(0).shape.numel();
  s.form.channels_last = view.attr<bool>("channels_last");
  TD_RETURN_IF_ERROR(Channels(view, "scale", s.form.scale));
  TD_RETURN_IF_ERROR(Channels(view, "bias", s.form.bias));
  return s;
}

// The default values of `scale` and `bias`, by channel.
constexpr double kUnit[] = {1, 1, 1}, kZero[] = {0, 0, 0};

constinit const OpDef kSampleImage = {
    .type = "sample_image",
    .doc =
        "A batch of images [n,3,size,size] (channels_last: [n,size,size,3]) out of RGB pixels, "
        "bilinear between them. Image i is Images[i] = (first byte in Pixels, width, height), rows "
        "of width * 3 bytes; width and height are at most 2 * size. Taps[i] says, for each row and "
        "then for each column of the result, where it lies: 512 * p + w stands between pixel p and "
        "the next (p itself at the end), with w / 256 of that. So it cuts out, scales and mirrors. "
        "Out = value * scale + bias by channel, value in [0, 255].",
    .inputs = {{"Pixels"}, {"Images"}, {"Taps"}},
    .outputs = {{"Out"}},
    .attrs = {{"scale", std::span<const double>(kUnit), "by channel"},
              {"bias", std::span<const double>(kZero), "by channel"},
              {"channels_last", false, "channels are the last dimension of Out"},
              {"out_dtype", std::string_view("f32"), "f32, f16 or bf16"}},
    .infer = Infer,
    .cpu = &kSampleImageCpu,
};

}  // namespace tandem::ops
