#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

constexpr Tolerance kUpdate{.rel = 3e-7, .of_max = 3e-7};
// Tolerance for adam: a quotient with roots, and the difference 1 - Beta2Pow, which cancels.
constexpr Tolerance kAdam{.rel = 2e-5, .of_max = 1e-6};
// Tolerance for a difference that nearly cancels: under the root (centered rmsprop), or in z
// (ftrl).
constexpr Tolerance kDifference{.rel = 2e-5, .of_max = 1e-5};

void AddOptimizers(const Shape& shape, bool bench, std::vector<OpCase>& cases) {
  const Draw p = F32(shape), g = F32(shape), lr = F32({1}, 0.01, 0.1), positive = F32(shape, 0, 1);
  const Draw power1 = F32({1}, 0.1, 0.9), power2 = F32({1}, 0.3, 0.99);
  const auto add = [&](OpCase c) {
    c.bench = bench;
    cases.push_back(std::move(c));
  };
  add({.op = "sgd", .inputs = {{p}, {g}, {lr}, {}}, .tolerance = kUpdate});
  for (const bool nesterov : {false, true}) {
    add({.op = "momentum",
         .inputs = {{p}, {g}, {F32(shape)}, {lr}, {}},
         .attrs = {{"use_nesterov", nesterov}},
         .tolerance = kUpdate});
  }
  for (const double decay : {0.0, 0.05}) {
    add({.op = "adam",
         .inputs = {{p}, {g}, {F32(shape)}, {positive}, {power1}, {power2}, {lr}, {}},
         .attrs = {{"weight_decay", decay}},
         .tolerance = kAdam});
  }
  add({.op = "adagrad", .inputs = {{p}, {g}, {positive}, {lr}, {}}, .tolerance = kUpdate});
  add({.op = "decayed_adagrad", .inputs = {{p}, {g}, {positive}, {lr}, {}}, .tolerance = kUpdate});
  add({.op = "adamax",
       .inputs = {{p}, {g}, {F32(shape)}, {positive}, {power1}, {lr}, {}},
       .tolerance = kAdam});
  add({.op = "rmsprop",
       .inputs = {{p}, {g}, {positive}, {F32(shape)}, {}, {lr}, {}},
       .attrs = {{"mu", 0.5}},
       .absent_outputs = {3},
       .tolerance = kUpdate});
  add({.op = "rmsprop",
       .inputs = {{p}, {g}, {F32(shape, 0.1, 1)}, {F32(shape)}, {F32(shape, -0.3, 0.3)}, {lr}, {}},
       .attrs = {{"centered", true}},
       .tolerance = kDifference});
  add({.op = "ftrl",
       .inputs = {{p}, {g}, {positive}, {F32(shape)}, {lr}, {}},
       .attrs = {{"l1", 0.3}, {"l2", 0.1}},
       .tolerance = kDifference});
}

// Adds rows of first steps. If all gradients so far are 0, the result 0 / (0 + epsilon) must be 0,
// not NaN.
void AddFirstSteps(std::vector<OpCase>& cases) {
  const Draw p = F32({20}), zero = F32({20}, 0, 0), lr = F32({1}, 0.1, 0.2);
  cases.push_back({.op = "momentum",
                   .inputs = {{p}, {p}, {p}, {lr}, {}},
                   .attrs = {{"mu", 0.0}},
                   .tolerance = kUpdate});
  cases.push_back(
      {.op = "adam",
       .inputs = {{p}, {p}, {zero}, {zero}, {F32({1}, 0.8, 0.8)}, {F32({1}, 0.95, 0.95)}, {lr}, {}},
       .attrs = {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-3}},
       .tolerance = kAdam});
  cases.push_back(
      {.op = "adam",
       .inputs =
           {{p}, {zero}, {zero}, {zero}, {F32({1}, 0.9, 0.9)}, {F32({1}, 0.999, 0.999)}, {lr}, {}},
       .tolerance = kAdam});
  cases.push_back({.op = "adagrad",
                   .inputs = {{p}, {zero}, {zero}, {lr}, {}},
                   .attrs = {{"epsilon", 1e-10}},
                   .tolerance = kUpdate});
  cases.push_back({.op = "adamax",
                   .inputs = {{p}, {zero}, {zero}, {zero}, {F32({1}, 0.9, 0.9)}, {lr}, {}},
                   .attrs = {{"epsilon", 1e-6}},
                   .tolerance = kAdam});
  cases.push_back({.op = "ftrl", .inputs = {{p}, {zero}, {zero}, {zero}, {lr}, {}}});
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
  AddFirstSteps(cases);
  return cases;
}

}  // namespace tandem::optest
