// Tests wrong inputs and attributes of the image operators.
#include "tests/ops/bad_op.h"

namespace tandem::optest {
namespace {

OpCase Conv(const Shape& x, const Shape& w, ops::AttrMap attrs = {}) {
  return Make("conv2d", {{F32(x)}, {F32(w)}, {}}, std::move(attrs));
}

OpCase Pool(const Shape& x, ops::AttrMap attrs) {
  attrs.try_emplace("ksize", Ints{2, 2});
  return Make("pool2d", {{F32(x)}}, std::move(attrs));
}

TEST(Infer, RefusesBadSamples) {
  const Draw pixels = Of(DType::kU8, {64}), images = Of(DType::kI64, {2, 3}),
             taps = Of(DType::kI32, {2, 2, 4});
  const auto sample = [](const Draw& p, const Draw& i, const Draw& t, ops::AttrMap attrs = {}) {
    return Make("sample_image", {{p}, {i}, {t}}, std::move(attrs));
  };
  const Bad table[] = {
      {"pixels' type", sample(F32({64}), images, taps), "Pixels must have element type u8"},
      {"images' type", sample(pixels, F32({2, 3}), taps), "Images must be i64[2,3]"},
      {"count", sample(pixels, Of(DType::kI64, {3, 3}), taps), "Images must be i64[2,3]"},
      {"taps' rank", sample(pixels, images, Of(DType::kI32, {2, 8})), "3 dimensions"},
      {"taps' type", sample(pixels, images, Of(DType::kI64, {2, 2, 4})), "Taps must be i32"},
      {"rows alone", sample(pixels, images, Of(DType::kI32, {2, 1, 4})), "Taps must be i32"},
      {"size", sample(pixels, images, Of(DType::kI32, {2, 2, 5000})), "from 1 to 4096"},
      {"scale", sample(pixels, images, taps, {{"scale", std::vector<double>{1}}}),
       "scale must have 3 numbers"},
      {"bias", sample(pixels, images, taps, {{"bias", std::vector<double>{}}}),
       "bias must have 3 numbers"},
      {"integers", sample(pixels, images, taps, {{"out_dtype", std::string("i64")}}),
       "f16 or bf16"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadImages) {
  const Shape x{2, 4, 6, 6}, w{8, 4, 3, 3};
  const Bad table[] = {
      {"layout", Conv(x, w, {{"input_layout", std::string("NWHC")}}), "NWHC"},
      {"channels of a block", Conv(x, w, {{"input_layout", std::string("nChw16c")}}),
       "16 channels"},
      {"channels of a block", Conv(x, w, {{"output_layout", std::string("nChw16c")}}),
       "16 channels"},
      {"relu inside", Conv(x, w, {{"fuse_relu_before_depthwise_conv", true}}),
       "one group per channel"},
      {"channels of a block", Pool(x, {{"data_layout", std::string("nChw16c")}}), "16 channels"},
      {"filter's channels", Make("conv2d_transpose", {{F32({2, 3, 4, 4})}, {F32({4, 3, 3, 3})}}),
       "must divide the 3 output channels"},
      {"padding takes all",
       Make("conv2d_transpose", {{F32({2, 3, 1, 1})}, {F32({3, 3, 3, 3})}},
            {{"paddings", Ints{2, 0}}}),
       "an image of size -1"},
      {"output_padding",
       Make("conv2d_transpose", {{F32({2, 3, 4, 4})}, {F32({3, 3, 3, 3})}},
            {{"output_padding", Ints{1, 0}}}),
       "output_padding=1"},
      {"gradient's shape",
       Make("conv2d_transpose_grad",
            {{F32({2, 3, 4, 4})}, {F32({3, 3, 3, 3})}, {F32({2, 3, 4, 4})}}),
       "[2,3,6,6]"},
      {"rank", Make("reorder", {{F32({4, 5})}}), "4 dimensions"},
      {"layout", Make("reorder", {{F32(x)}}, {{"to", std::string("nChw16c")}}), "16 channels"},
      {"algorithm", Conv(x, w, {{"algorithm", std::string("fft")}}), "fft"},
      {"rank of Input", Conv({4, 6, 6}, w), "4 dimensions"},
      {"rank of Filter", Conv(x, {8, 4, 3}), "4 dimensions"},
      {"channels", Conv(x, {8, 3, 3, 3}), "4 input channels per group"},
      {"groups", Conv(x, w, {{"groups", int64_t{3}}}), "groups=3"},
      {"groups", Conv(x, w, {{"groups", int64_t{0}}}), "groups=0"},
      {"groups", Conv(x, w, {{"groups", int64_t{-4}}}), "groups=-4"},
      {"channels of a group", Conv(x, w, {{"groups", int64_t{2}}}), "2 input channels per group"},
      {"strides", Conv(x, w, {{"strides", Ints{0, 1}}}), "strides"},
      {"strides", Conv(x, w, {{"strides", Ints{1}}}), "strides"},
      {"strides", Conv(x, w, {{"strides", Ints{1, 1, 1}}}), "strides"},
      {"strides", Conv(x, w, {{"strides", Ints{1, int64_t{1} << 62}}}), "strides"},
      {"paddings", Conv(x, w, {{"paddings", Ints{-1, 0}}}), "paddings"},
      {"paddings", Conv(x, w, {{"paddings", Ints{}}}), "paddings"},
      {"dilations", Conv(x, w, {{"dilations", Ints{1, 0}}}), "dilations"},
      {"kernel too large", Conv({1, 4, 2, 2}, w), "fit"},
      {"dilated kernel too large", Conv(x, w, {{"dilations", Ints{1, 3}}}), "fit"},
      {"empty kernel", Conv(x, {8, 4, 0, 3}), "fit"},
      {"bias", Make("conv2d", {{F32(x)}, {F32(w)}, {F32({4})}}), "[8]"},
      {"type", Make("conv2d", {{Of(DType::kU8, x)}, {F32(w)}, {}}), "u8"},
      {"result too large", Conv({1 << 24, 1, 1, 1}, {1 << 26, 1, 1, 1}), "conv2d"},
      {"attribute's type", Conv(x, w, {{"groups", 2.0}}), "groups", false},
      {"gradient's shape", Make("conv2d_grad", {{F32(x)}, {F32(w)}, {F32({2, 8, 6, 6})}}),
       "[2,8,4,4]"},
      {"kind", Pool(x, {{"pooling_type", std::string("mean")}}), "mean"},
      {"rank", Pool({4, 6, 6}, {}), "4 dimensions"},
      {"window missing", Pool(x, {{"ksize", Ints{}}}), "ksize"},
      {"window", Pool(x, {{"ksize", Ints{0, 2}}}), "ksize"},
      {"window too large", Pool(x, {{"ksize", Ints{7, 2}}}), "fit"},
      {"padding as large as the window", Pool(x, {{"paddings", Ints{2, 0}}}), "padding"},
      {"strides", Pool(x, {{"strides", Ints{0, 2}}}), "strides"},
      {"strides", Pool(x, {{"strides", Ints{-1, 2}}}), "strides"},
      {"empty plane", Pool({2, 4, 0, 6}, {{"global_pooling", true}}), "height or width 0"},
      {"type", Make("pool2d", {{Of(DType::kI32, x)}}, {{"ksize", Ints{2, 2}}}), "i32"},
      {"gradient's shape",
       Make("pool2d_grad", {{F32(x)}, {F32({2, 4, 5, 5})}, {F32({2, 4, 5, 4})}},
            {{"ksize", Ints{2, 2}}}),
       "[2,4,5,5]"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

OpCase Norm(const Shape& x, const Shape& c, ops::AttrMap attrs = {}) {
  return Make("batch_norm", {{F32(x)}, {F32(c)}, {F32(c)}, {F32(c)}, {F32(c)}}, std::move(attrs));
}

TEST(Infer, RefusesBadNorms) {
  const Draw x = F32({2, 3, 4, 4}), c = F32({3});
  const Bad table[] = {
      {"rank", Norm({6}, {6}), "at least 2"},
      {"scale", Norm({2, 3}, {2}), "[3]"},
      {"variance", Make("batch_norm", {{x}, {c}, {c}, {c}, {F32({1})}}), "[3]"},
      {"epsilon", Norm({2, 3}, {3}, {{"epsilon", 0.0}}), "epsilon=0"},
      {"momentum", Norm({2, 3}, {3}, {{"momentum", 1.5}}), "momentum=1.5"},
      {"type", Make("batch_norm", {{Of(DType::kI64, {2, 3})}, {c}, {c}, {c}, {c}}), "i64"},
      {"no samples", Norm({0, 3}, {3}), "expected at least 1"},
      {"layout", Norm({2, 16}, {16}, {{"data_layout", std::string("nChw16c")}}), "[n,c,h,w]"},
      {"epsilon", Norm({2, 3}, {3}, {{"epsilon", 1.0}}), "epsilon=1"},
      {"gradient's shape", Make("batch_norm_grad", {{x}, {c}, {c}, {c}, {F32({2, 3, 4, 5})}, {}}),
       "must have the same type"},
      {"Z", Make("fused_bn_add_activation", {{x}, {c}, {c}, {c}, {c}, {F32({2, 3, 1, 1})}}),
       "must have the same type"},
      {"Y", Make("fused_bn_add_activation_grad", {{x}, {c}, {c}, {c}, {x}, {F32({2, 3})}, {}}),
       "must have the same type"},
      {"sums", Make("batch_norm_grad", {{x}, {c}, {c}, {c}, {x}, {c}}), "[7]"},
      {"rank", Make("batch_norm_moments", {{x}}, {{"rank", int64_t{2}}, {"ranks", int64_t{2}}}),
       "rank=2"},
      {"moments", Make("batch_norm_merge", {{F32({2, 6})}, {c}, {c}}), "2 * channels + 1"},
      {"sums' gradient", Make("batch_norm_grad_sums", {{x}, {c}, {c}, {}}),
       "must have the same type"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

}  // namespace
}  // namespace tandem::optest
