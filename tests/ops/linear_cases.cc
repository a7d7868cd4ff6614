#include <algorithm>

#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

struct Size {
  int64_t m, k, n;
  bool bench = false;
};

double Flops(const Size& s) { return 2.0 * static_cast<double>(s.m * s.k * s.n); }

void AddFc(const Size& s, bool bias, std::vector<OpCase>& cases) {
  std::vector<std::vector<Draw>> inputs = {{F32({s.m, s.k})}, {F32({s.k, s.n})}, {}};
  if (bias) inputs[2] = {F32({s.n})};
  cases.push_back({.op = "fc",
                   .inputs = inputs,
                   .tolerance = Products(s.k),
                   .grad_slots = bias ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{0, 1},
                   // Libxsmm's order of summation depends on the number of rows per thread.
                   .bits_vary_with_threads = true,
                   .flops = Flops(s),
                   .bench = s.bench && bias});
}

void AddFcGrad(const Size& s, const std::vector<size_t>& absent, std::vector<OpCase>& cases) {
  double products = 2;
  for (const size_t slot : absent) products -= slot < 2 ? 1 : 0;
  cases.push_back({.op = "fc_grad",
                   .inputs = {{F32({s.m, s.k})}, {F32({s.k, s.n})}, {F32({s.m, s.n})}},
                   .absent_outputs = absent,
                   .tolerance = Products(std::max(s.m, s.n)),
                   // Libxsmm's order of summation depends on the number of rows per thread.
                   .bits_vary_with_threads = true,
                   .flops = products * Flops(s),
                   .bench = s.bench && absent.empty()});
}

void AddMatmul(const Size& s, bool tx, bool ty, std::vector<OpCase>& cases) {
  const Shape x = tx ? Shape{s.k, s.m} : Shape{s.m, s.k};
  const Shape y = ty ? Shape{s.n, s.k} : Shape{s.k, s.n};
  cases.push_back({.op = "matmul",
                   .inputs = {{F32(x)}, {F32(y)}},
                   .attrs = {{"trans_x", tx}, {"trans_y", ty}},
                   .tolerance = Products(s.k),
                   .grad_slots = {0, 1},
                   // Libxsmm's order of summation depends on the number of rows per thread.
                   .bits_vary_with_threads = true,
                   .flops = Flops(s),
                   .bench = s.bench});
}

void AddBatched(const Ints& batch, const Size& s, std::vector<OpCase>& cases) {
  for (const bool tx : {false, true}) {
    for (const bool ty : {false, true}) {
      const auto matrices = [&batch](int64_t rows, int64_t cols) {
        Ints dims = batch;
        dims.insert(dims.end(), {rows, cols});
        return F32(Shape(dims));
      };
      cases.push_back({.op = "matmul",
                       .inputs = {{tx ? matrices(s.k, s.m) : matrices(s.m, s.k)},
                                  {ty ? matrices(s.n, s.k) : matrices(s.k, s.n)}},
                       .attrs = {{"trans_x", tx}, {"trans_y", ty}, {"alpha", 0.25}},
                       .tolerance = Products(s.k),
                       .grad_slots = {0, 1},
                       .flops = static_cast<double>(Shape(batch).numel()) * Flops(s),
                       .bench = s.bench && !tx});
    }
  }
}

}  // namespace

std::vector<OpCase> LinearCases() {
  const Size sizes[] = {{1, 1, 1},
                        {1, 7, 1},
                        {2, 3, 5},
                        {1, 16, 16},
                        {3, 17, 33},
                        {5, 1, 9},
                        {16, 16, 16},
                        {17, 31, 15},
                        {64, 48, 10},
                        {32, 100, 64},
                        {1, 784, 10},
                        {63, 65, 127},
                        {128, 784, 10, true},
                        {64, 256, 96},
                        {33, 500, 10},
                        {0, 4, 3},
                        {4, 3, 0},
                        {67, 700, 130},
                        {64, 800, 500, true},
                        // Sizes for which kernels on AMX tiles use more than one block along k, in
                        // f32 and in bf16.
                        {70, 3300, 45},
                        {512, 256, 768, true}};
  std::vector<OpCase> cases;
  for (const Size& s : sizes) {
    AddFc(s, true, cases);
    AddFcGrad(s, {}, cases);
    AddMatmul(s, false, false, cases);
    if (s.bench) continue;
    AddFc(s, false, cases);
    AddFcGrad(s, {0}, cases);
    AddFcGrad(s, {2}, cases);
    AddMatmul(s, false, true, cases);
    AddMatmul(s, true, false, cases);
    AddMatmul(s, true, true, cases);
  }
  AddBatched({1}, {5, 7, 3}, cases);
  AddBatched({4}, {1, 1, 1}, cases);
  AddBatched({3}, {5, 17, 33}, cases);
  AddBatched({2, 3}, {16, 8, 16}, cases);
  AddBatched({2, 1, 5}, {9, 1, 20}, cases);
  AddBatched({0}, {2, 3, 4}, cases);
  AddBatched({3}, {2, 0, 4}, cases);
  AddBatched({2}, {40, 600, 700}, cases);
  AddBatched({16, 8}, {128, 32, 128, true}, cases);
  AddFcGrad({5, 6, 7}, {1}, cases);
  AddFcGrad({5, 6, 7}, {0, 1}, cases);
  AddFcGrad({5, 6, 7}, {1, 2}, cases);
  AddFcGrad({64, 784, 128}, {0, 2}, cases);
  // A dimension of 0 makes the sums empty: the output is the bias, and gradients are zero.
  AddFc({3, 0, 4}, true, cases);
  AddFc({3, 0, 4}, false, cases);
  return cases;
}

}  // namespace tandem::optest
