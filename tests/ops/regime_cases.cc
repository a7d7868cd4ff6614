#include <bit>

#include "kernels/ops/update/dgc.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

Draw One(double value) { return F32({1}, value, value); }

void AddAdaptiveSteps(std::vector<OpCase>& cases) {
  struct Row {
    double loss, rate, base_loss, base_rate, steps;
    int64_t first;
  };
  const Row rows[] = {
      {2.5, 0.1, 0, 0, 1, 4},        // first call: base loss and base rate are not set yet
      {2.5, 0.1, 2.5, 0.1, 7, 9},    // loss and rate of the first call: 3 steps
      {1.25, 0.1, 2.5, 0.1, 7, 9},   // half the loss of the first call: 3 steps
      {0.5, 0.1, 2.5, 0.1, 7, 9},    // a fifth of the loss of the first call: 2 steps
      {2.5, 0.025, 2.5, 0.1, 7, 9},  // a quarter of the learning rate of the first call: 6 steps
      {2.5, 1e-9, 2.5, 0.1, 7, 9},   // tiny learning rate: the maximum, 16 steps
      {1e-9, 0.1, 2.5, 0.1, 7, 9},   // tiny loss: the minimum, 1 step
      {2.5, 0, 2.5, 0.1, 7, 9},      // learning rate 0: 16 steps
      // A negative loss has no square root: the number of steps stays the same.
      {-1, 0.1, 2.5, 0.1, 7, 9},
      // Learning rate 0 cannot become the base rate: the number of steps stays the same.
      {2.5, 0, 0, 0, 7, 9},
      {3e38, 3e38, 1e-38, 1e-30, 7, 16},
  };
  for (const Row& r : rows) {
    cases.push_back(
        {.op = "adaptive_steps",
         .inputs =
             {{One(r.loss)}, {One(r.rate)}, {One(r.base_loss)}, {One(r.base_rate)}, {One(r.steps)}},
         .attrs = {{"init_k_steps", r.first}}});
  }
}

// Adds a gradient to a buffer with `counted` gradients of total weight `weight`; three make a step.
void AddBufferedMomentum(const Shape& shape, bool bench, std::vector<OpCase>& cases) {
  struct Row {
    double weight, counted, added;
    bool nesterov;
  };
  const Row rows[] = {
      {0, 0, 1, true},        // the first gradient: no step
      {1, 1, 0.5, true},      // the second gradient: no step
      {1.5, 2, 0.25, true},   // the third gradient: a step with the mean
      {1.5, 2, 0.25, false},  // plain momentum
      {2, 7, 1, true},        // more gradients than a step needs
      {0, 2, 0, true},        // no gradient has a weight: the mean is 0
      {0.5, 2, -0.5, true},   // the weights cancel: the mean is 0
  };
  for (const Row& r : rows) {
    if (bench && !(r.nesterov && r.counted < 3)) continue;
    cases.push_back({.op = "buffered_momentum",
                     .inputs = {{F32(shape)},
                                {F32(shape)},
                                {F32(shape)},
                                {F32(shape)},
                                {One(r.weight)},
                                {One(r.counted)},
                                {One(r.added)}},
                     .attrs = {{"gradients", int64_t{3}}, {"use_nesterov", r.nesterov}},
                     .tolerance = {.rel = 1e-6, .of_max = 1e-6},
                     .bench = bench && r.counted == 2 && r.weight > 0});
  }
}

void AddEveryNth(std::vector<OpCase>& cases) {
  for (const int64_t n : {1, 2, 5}) {
    for (const double counted : {-3.0, -1.0, 0.0, 1.0, 4.0, 7.0}) {
      cases.push_back({.op = "every_nth", .inputs = {{One(counted)}, {}}, .attrs = {{"n", n}}});
      cases.push_back(
          {.op = "every_nth", .inputs = {{One(counted)}, {One(static_cast<double>(n))}}});
    }
  }
}

void AddCompress(const Shape& shape, bool bench, std::vector<OpCase>& cases) {
  const int64_t n = shape.numel();
  for (const float sparsity : {0.0f, 0.5f, 0.9f, 0.999f}) {
    if (bench && sparsity < 0.99f) continue;
    const int64_t k = ops::SelectedOf(n, sparsity);
    OpCase c = {.op = "dgc_compress",
                .inputs = {{F32(shape)}, {F32(shape)}, {F32(shape)}, {One(sparsity)}},
                .attrs = {{"capacity", k}, {"use_nesterov", sparsity == 0.9f}},
                .bench = bench};
    cases.push_back(c);
    if (bench || n < 2) continue;
    // Row whose output has more capacity than it needs.
    c.attrs["capacity"] = n;
    for (size_t i = 0; i < 3; ++i) c.inputs[i] = {Few(shape)};  // many elements are equal
    c.attrs["mu"] = 0.5;
    cases.push_back(c);
  }
}

// Returns the description of `rows` selections. Each selection selects up to `capacity` of n
// elements.
Draw Selections(int64_t rows, int64_t capacity, int64_t n) {
  const TensorDesc desc = {DType::kI32, {rows, ops::SelectionWords(capacity)}};
  const auto derive = [desc, rows, capacity, n](std::span<const Value>) {
    Value value{desc, std::vector<double>(static_cast<size_t>(desc.shape.numel()), 0.0)};
    for (int64_t r = 0; r < rows; ++r) {
      double* words = value.v.data() + r * ops::SelectionWords(capacity);
      const int64_t k = std::min(n, capacity - std::min(capacity, r % 2));
      words[0] = static_cast<double>(k);
      for (int64_t j = 0; j < k; ++j) {
        const float x = static_cast<float>((j + 3 * r) % 11 - 5) / 4.0f;
        words[1 + j] = static_cast<double>(k == 0 ? 0 : j * n / k);
        words[1 + k + j] = static_cast<double>(std::bit_cast<int32_t>(x));
      }
    }
    return value;
  };
  return {.desc = desc, .kind = Draw::kDerived, .derive = derive};
}

void AddUpdate(int64_t n, int64_t rows, int64_t capacity, bool bench, std::vector<OpCase>& cases) {
  cases.push_back({.op = "dgc_update",
                   .inputs = {{F32({n})}, {Selections(rows, capacity, n)}, {F32({1}, 0.01, 0.1)}},
                   .tolerance = {.rel = 3e-7, .of_max = 3e-7},
                   .bench = bench});
}

}  // namespace

std::vector<OpCase> RegimeCases() {
  std::vector<OpCase> cases;
  AddAdaptiveSteps(cases);
  AddEveryNth(cases);
  for (const int64_t n : {0, 1, 17, 1023}) AddBufferedMomentum({n}, false, cases);
  AddBufferedMomentum({3, 4, 5}, false, cases);
  AddBufferedMomentum({300001}, true, cases);
  for (const int64_t n : {0, 1, 2, 17, 100, 4095, 4097, 100001}) AddCompress({n}, false, cases);
  AddCompress({3, 50, 7}, false, cases);
  AddCompress({1 << 20}, true, cases);
  AddUpdate(1, 1, 1, false, cases);
  AddUpdate(100, 3, 7, false, cases);
  AddUpdate(100, 2, 100, false, cases);
  AddUpdate(100, 4, 0, false, cases);
  AddUpdate(0, 2, 0, false, cases);
  AddUpdate(1 << 20, 4, 1 << 12, true, cases);
  return cases;
}

}  // namespace tandem::optest
