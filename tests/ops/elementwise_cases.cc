#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

// Tolerances: kOnce for one rounding, kTwice for two roundings (a product and a sum).
constexpr Tolerance kOnce{.rel = 1.2e-7};
constexpr Tolerance kTwice{.rel = 2.5e-7, .of_max = 1.2e-7};

void AddElementwise(const Shape& x, const Shape& y, int64_t axis, bool bench,
                    std::vector<OpCase>& cases) {
  for (const std::string op : {"add", "mul", "sub", "div", "max"}) {
    // If y is near 0, the quotient is too inaccurate for a comparison.
    const Draw by = op == "div" ? AwayFromZero(y) : F32(y);
    cases.push_back({.op = "elementwise_" + op,
                     .inputs = {{F32(x)}, {by}},
                     .attrs = {{"axis", axis}},
                     .tolerance = kOnce,
                     .grad_slots = {0, 1},
                     .bench = bench});
    OpCase grad = {.op = "elementwise_" + op + "_grad",
                   .inputs = {{F32(x)}, {by}, {F32(x)}},
                   .attrs = {{"axis", axis}},
                   .tolerance = kSums,
                   .bench = bench};
    cases.push_back(grad);
    grad.bench = false;
    for (const size_t slot : {size_t{0}, size_t{1}}) {
      grad.absent_outputs = {slot};
      cases.push_back(grad);
    }
  }
}

void AddUnary(const Shape& x, bool bench, std::vector<OpCase>& cases) {
  cases.push_back({.op = "relu", .inputs = {{AwayFromZero(x)}}, .grad_slots = {0}, .bench = bench});
  // Out is the result of relu, so it has no negative elements. Where Out is 0, the gradient is 0.
  cases.push_back({.op = "relu_grad", .inputs = {{F32(x, 0, 1)}, {F32(x)}}, .bench = bench});
  cases.push_back({.op = "scale",
                   .inputs = {{F32(x)}},
                   .attrs = {{"scale", -2.5}, {"bias", 0.375}},
                   .tolerance = kTwice,
                   .grad_slots = {0},
                   .bench = bench});
  cases.push_back({.op = "mean",
                   .inputs = {{F32(x)}},
                   .tolerance = {.rel = 1e-6},
                   .grad_slots = {0},
                   .bench = bench});
  cases.push_back(
      {.op = "mean_grad", .inputs = {{F32(x)}, {F32({1})}}, .tolerance = kOnce, .bench = bench});
}

void AddSums(std::vector<OpCase>& cases) {
  for (const int64_t n : {1, 15, 17, 100}) {
    for (const size_t count : {1, 2, 3, 7}) {
      cases.push_back({.op = "sum",
                       .inputs = {std::vector<Draw>(count, F32({n, 3}))},
                       .tolerance = {.of_max = 1e-6},
                       .grad_slots = {0}});
    }
  }
  cases.push_back({.op = "sum",
                   .inputs = {std::vector<Draw>(2, F32({1 << 18}))},
                   .tolerance = {.of_max = 1e-6},
                   .bench = true});
}

void AddReshapes(std::vector<OpCase>& cases) {
  struct Row {
    Shape x;
    Ints shape;
  };
  const Row rows[] = {
      {{2, 3, 4}, {2, 12}},       {{2, 3, 4}, {0, -1}},      {{6}, {1, 2, 3}},    {{2, 3, 4}, {-1}},
      {{5, 2, 2}, {0, 0, -1, 1}}, {{1}, {1, 1, 1, 1, 1, 1}}, {{0, 4}, {0, 2, 2}}, {{7, 9}, {9, 7}}};
  for (const Row& row : rows) {
    cases.push_back({.op = "reshape",
                     .inputs = {{F32(row.x)}},
                     .attrs = {{"shape", row.shape}},
                     .grad_slots = {0}});
  }
  cases.push_back({.op = "reshape_grad", .inputs = {{F32({2, 3, 4})}, {F32({6, 4})}}});
  cases.push_back({.op = "reshape_grad", .inputs = {{F32({0, 3})}, {F32({3, 0})}}});
  Draw whole = Labels(6, 100);
  cases.push_back({.op = "reshape", .inputs = {{whole}}, .attrs = {{"shape", Ints{2, 3}}}});
}

void AddFills(std::vector<OpCase>& cases) {
  for (const std::string dtype : {"f32", "i32", "i64", "u8"}) {
    for (const double value : {0.0, 3.0, 200.0}) {
      cases.push_back({.op = "fill_constant",
                       .inputs = {},
                       .attrs = {{"shape", Ints{3, 7}}, {"dtype", dtype}, {"value", value}}});
    }
  }
  for (const Ints& shape : {Ints{1}, Ints{0}, Ints{}, Ints{2, 3, 1, 2, 1, 1, 1, 5}}) {
    cases.push_back(
        {.op = "fill_constant", .inputs = {}, .attrs = {{"shape", shape}, {"value", -0.1}}});
  }
  cases.push_back({.op = "fill_constant",
                   .inputs = {},
                   .attrs = {{"shape", Ints{2}}, {"dtype", std::string("i64")}, {"value", -7.0}}});
}

}  // namespace

std::vector<OpCase> ElementwiseCases() {
  std::vector<OpCase> cases;
  AddElementwise({1}, {1}, -1, false, cases);
  AddElementwise({5}, {5}, -1, false, cases);
  AddElementwise({3, 17}, {3, 17}, -1, false, cases);
  AddElementwise({4, 33}, {33}, -1, false, cases);
  AddElementwise({4, 33}, {33}, 1, false, cases);
  AddElementwise({4, 33}, {4}, 0, false, cases);
  AddElementwise({2, 3, 5, 7}, {3}, 1, false, cases);  // Y is a bias per channel
  AddElementwise({2, 3, 5, 7}, {3, 5}, 1, false, cases);
  AddElementwise({2, 3, 5, 7}, {5, 7}, -1, false, cases);
  AddElementwise({2, 3, 5, 7}, {2, 3, 5}, 0, false, cases);
  AddElementwise({2, 3, 5, 7}, {2, 3, 5, 7}, 0, false, cases);
  AddElementwise({2, 1, 31}, {1}, 1, false, cases);
  AddElementwise({3, 4, 1}, {4}, 1, false, cases);
  AddElementwise({6, 1}, {1}, -1, false, cases);
  AddElementwise({1, 16, 16}, {16}, 1, false, cases);
  AddElementwise({0, 5}, {5}, -1, false, cases);
  AddElementwise({2, 3, 700}, {3}, 1, false, cases);
  AddElementwise({512, 512}, {512}, -1, true, cases);
  for (const std::string op : {"sub", "div", "max"}) {
    cases.push_back({.op = "elementwise_" + op, .inputs = {{Special({121})}, {Special({11})}}});
    cases.back().inputs[0][0].desc.shape = {11, 11};
  }
  for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000}) {
    AddUnary({n}, false, cases);
  }
  AddUnary({3, 5, 7}, false, cases);
  AddUnary({2, 3, 4, 5}, false, cases);
  AddUnary({401, 1003}, true, cases);
  cases.push_back({.op = "relu", .inputs = {{Special({97})}}});
  cases.push_back({.op = "relu", .inputs = {{F32({0, 3})}}});
  cases.push_back({.op = "relu_grad", .inputs = {{F32({40}, -1, 1)}, {F32({40})}}});
  cases.push_back({.op = "scale", .inputs = {{F32({37})}}, .grad_slots = {0}});
  cases.push_back({.op = "scale",
                   .inputs = {{F32({37})}},
                   .attrs = {{"scale", 0.5}},
                   .tolerance = kOnce,
                   .grad_slots = {0}});
  AddSums(cases);
  AddReshapes(cases);
  AddFills(cases);
  return cases;
}

}  // namespace tandem::optest
