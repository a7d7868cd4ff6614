// The code of the optimizers' loops, included once by each update_loops_<isa>.cc. As in
// loops_code.h everything has internal linkage and no inline function of a header is called.
#ifndef TANDEM_UPDATE_LOOPS
#error "include this from update_loops_<isa>.cc alone"
#endif
#include "kernels/ops/update_loops.h"
#include "kernels/ops/vector_code.h"

namespace tandem {
namespace {

inline float Larger(float a, float b) { return a > b ? a : b; }
inline float Size(float x) { return __builtin_fabsf(x); }

void Sgd(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g;
  float* po = r.po;
  const float lr = args.lr;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) po[i] = p[i] - lr * g[i];
}

void Momentum(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *v = r.s[0];
  float *po = r.po, *vo = r.so[0];
  const float lr = args.lr, mu = args.mu;
  if (args.nesterov) {
    TANDEM_VECTOR_LOOP
    for (int64_t i = 0; i < r.n; ++i) {
      const float velocity = mu * v[i] + g[i];
      po[i] = p[i] - lr * (g[i] + mu * velocity);
      vo[i] = velocity;
    }
    return;
  }
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float velocity = mu * v[i] + g[i];
    po[i] = p[i] - lr * velocity;
    vo[i] = velocity;
  }
}

void Adam(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *m = r.s[0], *v = r.s[1];
  float *po = r.po, *mo = r.so[0], *vo = r.so[1];
  const float lr = args.lr, b1 = args.beta1, b2 = args.beta2, eps = args.epsilon;
  const float c1 = 1.0f - b1, c2 = 1.0f - b2, keep = args.keep;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float m1 = b1 * m[i] + c1 * g[i];
    const float m2 = b2 * v[i] + c2 * (g[i] * g[i]);
    po[i] = p[i] * keep - lr * m1 / (__builtin_sqrtf(m2) + eps);
    mo[i] = m1;
    vo[i] = m2;
  }
}

void Adagrad(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *s = r.s[0];
  float *po = r.po, *so = r.so[0];
  const float lr = args.lr, eps = args.epsilon;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float sum = s[i] + g[i] * g[i];
    po[i] = p[i] - lr * g[i] / (__builtin_sqrtf(sum) + eps);
    so[i] = sum;
  }
}

void DecayedAdagrad(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *s = r.s[0];
  float *po = r.po, *so = r.so[0];
  const float lr = args.lr, eps = args.epsilon, decay = args.decay, rest = 1.0f - args.decay;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float mean = decay * s[i] + rest * (g[i] * g[i]);
    po[i] = p[i] - lr * g[i] / (__builtin_sqrtf(mean) + eps);
    so[i] = mean;
  }
}

void Adamax(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *m = r.s[0], *u = r.s[1];
  float *po = r.po, *mo = r.so[0], *uo = r.so[1];
  const float lr = args.lr, b1 = args.beta1, b2 = args.beta2, eps = args.epsilon;
  const float c1 = 1.0f - b1;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float m1 = b1 * m[i] + c1 * g[i];
    const float norm = Larger(Size(g[i]), b2 * u[i] + eps);
    po[i] = p[i] - lr * m1 / norm;
    mo[i] = m1;
    uo[i] = norm;
  }
}

void Rmsprop(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *s = r.s[0], *v = r.s[1], *a = r.s[2];
  float *po = r.po, *so = r.so[0], *vo = r.so[1], *ao = r.so[2];
  const float lr = args.lr, eps = args.epsilon, decay = args.decay, rest = 1.0f - args.decay;
  const float mu = args.mu;
  if (a != nullptr) {
    TANDEM_VECTOR_LOOP
    for (int64_t i = 0; i < r.n; ++i) {
      const float square = decay * s[i] + rest * (g[i] * g[i]);
      const float mean = decay * a[i] + rest * g[i];
      const float variance = Larger(square - mean * mean, 0.0f);
      const float velocity = mu * v[i] + lr * g[i] / __builtin_sqrtf(variance + eps);
      po[i] = p[i] - velocity;
      so[i] = square;
      vo[i] = velocity;
      ao[i] = mean;
    }
    return;
  }
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float square = decay * s[i] + rest * (g[i] * g[i]);
    const float velocity = mu * v[i] + lr * g[i] / __builtin_sqrtf(square + eps);
    po[i] = p[i] - velocity;
    so[i] = square;
    vo[i] = velocity;
  }
}

void Ftrl(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *s = r.s[0], *z = r.s[1];
  float *po = r.po, *so = r.so[0], *zo = r.so[1];
  const float lr = args.lr, l1 = args.l1, l2 = 2.0f * args.l2;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float sum = s[i] + g[i] * g[i];
    const float root = __builtin_sqrtf(sum);
    const float linear = z[i] + g[i] - (root - __builtin_sqrtf(s[i])) / lr * p[i];
    const float pull = (linear > 0.0f ? l1 : -l1) - linear;
    const float scale = root / lr + l2;
    po[i] = Size(linear) > l1 ? pull / scale : 0.0f;
    so[i] = sum;
    zo[i] = linear;
  }
}

void Lars(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *v = r.s[0];
  float *po = r.po, *vo = r.so[0];
  const float lr = args.lr, mu = args.mu, wd = args.weight_decay;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float velocity = mu * v[i] + lr * (g[i] + wd * p[i]);
    po[i] = p[i] - velocity;
    vo[i] = velocity;
  }
}

void Lamb(const UpdateArgs& args, const UpdateRun& r) {
  const float *p = r.p, *g = r.g, *m = r.s[0], *v = r.s[1];
  float *po = r.po, *mo = r.so[0], *vo = r.so[1];
  const float up1 = args.lr, up2 = args.keep, b1 = args.beta1, b2 = args.beta2;
  const float c1 = 1.0f - b1, c2 = 1.0f - b2, eps = args.epsilon, wd = args.weight_decay;
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    const float m1 = b1 * m[i] + c1 * g[i];
    const float m2 = b2 * v[i] + c2 * (g[i] * g[i]);
    po[i] = m1 * up1 / (__builtin_sqrtf(m2 * up2) + eps) + wd * p[i];
    mo[i] = m1;
    vo[i] = m2;
  }
}

void Regularize(const float* p, const float* g, float l1, float l2, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float sign = (p[i] > 0.0f ? l1 : 0.0f) - (p[i] < 0.0f ? l1 : 0.0f);
    out[i] = g[i] + l2 * p[i] + sign;
  }
}

void Clip(const float* x, float low, float high, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}

float SumSquares(const float* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += x[i + l] * x[i + l];
  }
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] += x[i] * x[i];
  float total = 0.0f;
  for (int64_t l = 0; l < kLanes; ++l) total += lane[l];
  return total;
}

}  // namespace

const UpdateLoops TANDEM_UPDATE_LOOPS = {
    .sgd = Sgd,
    .momentum = Momentum,
    .adam = Adam,
    .adagrad = Adagrad,
    .decayed_adagrad = DecayedAdagrad,
    .adamax = Adamax,
    .rmsprop = Rmsprop,
    .ftrl = Ftrl,
    .lars = Lars,
    .lamb = Lamb,
    .regularize = Regularize,
    .clip = Clip,
    .sum_squares = SumSquares,
};

}  // namespace tandem
