#include "tests/cuda_on_host/cudnn_operations.h"

#include <cmath>

namespace tandem::cuda_on_host {

ConvolutionNames NamesOfConvolution(const Descriptor& operation) {
  if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  }
  if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX};
  }
  return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};
}
bool IsConvolution(const Descriptor& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

namespace {

void Pointwise(const Descriptor& operation, const Arrays& arrays) {
  const auto mode = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        .get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const Array& y = ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  const Array& a = ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  const bool two = operation.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const Array& b = two ? ArrayOf(arrays, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) : a;
  for (int64_t i = 0; i < y.count(); ++i) {
    const float p = a.Load(a.At(i, y)), q = b.Load(b.At(i, y));
    y.Store(y.At(i, y), mode == CUDNN_POINTWISE_ADD        ? p + q
                        : mode == CUDNN_POINTWISE_MUL      ? p * q
                        : mode == CUDNN_POINTWISE_RELU_FWD ? (p < 0 ? 0 : p)
                                                           : (p > q ? 1 : 0));
  }
}

// Calls fn(offset in x, offset in w, offset in y) for every product that a convolution sums.
template <typename Fn>
void ForEachProduct(const Descriptor& c, const Array& x, const Array& w, const Array& y, Fn fn) {
  const auto pad = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto stride = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto dilation = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const int64_t group = y.dims[1] / (x.dims[1] / w.dims[1]);
  const auto at = [](const Array& a, int64_t n, int64_t k, int64_t row, int64_t column) {
    return n * a.strides[0] + k * a.strides[1] + row * a.strides[2] + column * a.strides[3];
  };
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t k = i % y.dims[1], col = i / y.dims[1] % y.dims[3];
    const int64_t row = i / y.dims[1] / y.dims[3] % y.dims[2];
    const int64_t n = i / y.dims[1] / y.dims[3] / y.dims[2];
    for (int64_t in = 0; in < w.dims[1]; ++in) {
      for (int64_t r = 0; r < w.dims[2]; ++r) {
        for (int64_t s = 0; s < w.dims[3]; ++s) {
          const int64_t h = row * stride[0] - pad[0] + r * dilation[0];
          const int64_t v = col * stride[1] - pad[1] + s * dilation[1];
          if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) continue;
          fn(at(x, n, k / group * w.dims[1] + in, h, v), at(w, k, in, r, s), at(y, n, k, row, col));
        }
      }
    }
  }
}

// Computes the output of a convolution operation: x, w or y, from the other two tensors.
void Convolution(const Descriptor& operation, const Arrays& arrays) {
  const ConvolutionNames names = NamesOfConvolution(operation);
  const Array& x = ArrayOf(arrays, operation, names.x);
  const Array& w = ArrayOf(arrays, operation, names.w);
  const Array& y = ArrayOf(arrays, operation, names.y);
  const Array& out = ArrayOf(arrays, operation, names.out);
  std::vector<float> sums(static_cast<size_t>(out.count()));
  ForEachProduct(operation.part(names.part), x, w, y, [&](int64_t p, int64_t q, int64_t r) {
    if (&out == &x) sums[static_cast<size_t>(p)] += w.Load(q) * y.Load(r);
    if (&out == &w) sums[static_cast<size_t>(q)] += x.Load(p) * y.Load(r);
    if (&out == &y) sums[static_cast<size_t>(r)] += x.Load(p) * w.Load(q);
  });
  for (size_t i = 0; i < sums.size(); ++i) out.Store(static_cast<int64_t>(i), sums[i]);
}

void NormForward(const Descriptor& operation, const Arrays& arrays) {
  const auto of = [&](int name) -> const Array& { return ArrayOf(arrays, operation, name); };
  const Array& x = of(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const Array& y = of(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
  const double epsilon = of(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC).Load(0);
  const int64_t channels = x.dims[1], n = x.count() / channels;
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += x.Load(x.At(i * channels + c, x));
    const double mean = sum / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      const double d = x.Load(x.At(i * channels + c, x)) - mean;
      squares += d * d;
    }
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
    of(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC).Store(c, static_cast<float>(mean));
    of(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC).Store(c, static_cast<float>(inverse));
    const double scale = of(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC).Load(c);
    const double bias = of(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC).Load(c);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = x.At(i * channels + c, x);
      y.Store(at, static_cast<float>((x.Load(at) - mean) * inverse * scale + bias));
    }
  }
}

void NormBackward(const Descriptor& operation, const Arrays& arrays) {
  const auto of = [&](int name) -> const Array& { return ArrayOf(arrays, operation, name); };
  const Array& x = of(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  const Array& gy = of(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
  const Array& gx = of(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC);
  const int64_t channels = x.dims[1], count = x.count() / channels;
  const auto n = static_cast<double>(count);
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = of(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC).Load(c);
    const double inverse = of(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC).Load(c);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = x.At(i * channels + c, x);
      sum += gy.Load(at);
      dot += gy.Load(at) * (x.Load(at) - mean);
    }
    of(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC).Store(c, static_cast<float>(dot * inverse));
    of(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC).Store(c, static_cast<float>(sum));
    const double factor = of(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC).Load(c) * inverse;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = x.At(i * channels + c, x);
      const double d = x.Load(at) - mean;
      gx.Store(at, static_cast<float>(factor *
                                      (gy.Load(at) - sum / n - d * dot * inverse * inverse / n)));
    }
  }
}

}  // namespace

void RunOperation(const Descriptor& operation, const Arrays& arrays) {
  if (IsConvolution(operation)) return Convolution(operation, arrays);
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return NormForward(operation, arrays);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return NormBackward(operation, arrays);
    default:
      return Pointwise(operation, arrays);
  }
}

}  // namespace tandem::cuda_on_host
