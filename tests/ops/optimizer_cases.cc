#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

constexpr Tolerance kUpdate{.rel = 3e-7, .of_max = 3e-7};
// A quotient of roots, and 1 - Beta2Pow, which cancels.
constexpr Tolerance kAdam{.rel = 2e-5, .of_max = 1e-6};

void AddOptimizers(const Shape& shape, bool bench, std::vector<OpCase>& cases) {
  const Draw p = F32(shape), g = F32(shape), lr = F32({1}, 0.01, 0.1);
  cases.push_back({.op = "sgd", .inputs = {{p}, {g}, {lr}}, .tolerance = kUpdate, .bench = bench});
  for (const bool nesterov : {false, true}) {
    cases.push_back({.op = "momentum",
                     .inputs = {{p}, {g}, {F32(shape)}, {lr}},
                     .attrs = {{"use_nesterov", nesterov}},
                     .tolerance = kUpdate,
                     .bench = bench});
  }
  const Draw second = F32(shape, 0, 1);
  cases.push_back(
      {.op = "adam",
       .inputs =
           {{p}, {g}, {F32(shape)}, {second}, {F32({1}, 0.1, 0.9)}, {F32({1}, 0.3, 0.99)}, {lr}},
       .tolerance = kAdam,
       .bench = bench});
}

}  // namespace

std::vector<OpCase> OptimizerCases() {
  std::vector<OpCase> cases;
  for (const int64_t n : {1, 3, 7, 8, 15, 16, 17, 31, 33, 100, 1023}) {
    AddOptimizers({n}, false, cases);
  }
  AddOptimizers({3, 4, 5}, false, cases);
  AddOptimizers({0}, false, cases);
  AddOptimizers({300001}, true, cases);
  cases.push_back({.op = "momentum",
                   .inputs = {{F32({20})}, {F32({20})}, {F32({20})}, {F32({1}, 0.1, 0.2)}},
                   .attrs = {{"mu", 0.0}},
                   .tolerance = kUpdate});
  cases.push_back({.op = "adam",
                   .inputs = {{F32({20})},
                              {F32({20})},
                              {F32({20}, 0, 0)},
                              {F32({20}, 0, 0)},
                              {F32({1}, 0.8, 0.8)},
                              {F32({1}, 0.95, 0.95)},
                              {F32({1}, 0.1, 0.2)}},  // the first step
                   .attrs = {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-3}},
                   .tolerance = kAdam});
  // No gradient was ever seen: 0 / (0 + epsilon) is 0, not NaN.
  cases.push_back({.op = "adam",
                   .inputs = {{F32({20})},
                              {F32({20}, 0, 0)},
                              {F32({20}, 0, 0)},
                              {F32({20}, 0, 0)},
                              {F32({1}, 0.9, 0.9)},
                              {F32({1}, 0.999, 0.999)},
                              {F32({1}, 0.1, 0.2)}},
                   .tolerance = kAdam});
  return cases;
}

}  // namespace tandem::optest
