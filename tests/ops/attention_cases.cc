#include <algorithm>

#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

struct Attention {
  std::vector<int64_t> batch;
  int64_t t, s, dim, width;
  bool causal = false;
  double dropout = 0;
  double range = 1;  // Q and K are drawn from [-range, range)
  bool bench = false;
};

constexpr Tolerance kTolerance{.rel = 3e-6, .of_max = 3e-6, .abs = 1e-6};

// columns: -1: one element for each row.
Shape Matrices(const Attention& a, int64_t rows, int64_t columns) {
  std::vector<int64_t> dims = a.batch;
  dims.push_back(rows);
  if (columns >= 0) dims.push_back(columns);
  return Shape(dims);
}

// The input Position of dropout: one sample after the first 3.
std::vector<Draw> Position(double dropout) {
  if (dropout == 0) return {};
  const auto derive = [](std::span<const Value>) {
    return Value{{DType::kI64, {4}}, {5, 17, 3, 1}};
  };
  return {{.desc = {DType::kI64, {4}}, .kind = Draw::kDerived, .derive = derive}};
}

ops::AttrMap AttrsOf(bool causal, double alpha, double dropout) {
  return {{"causal", causal},
          {"alpha", alpha},
          {"dropout_prob", dropout},
          {"name", std::string(dropout == 0 ? "" : "weights")}};
}

double FlopsOf(const Attention& a, int64_t products) {
  const int64_t scores = Matrices(a, a.t, a.s).numel();
  return static_cast<double>(products * scores * (a.dim + a.width)) / (a.causal ? 2 : 1);
}

void AddSeparate(const Attention& a, std::vector<OpCase>& cases) {
  const Draw q = F32(Matrices(a, a.t, a.dim), -a.range, a.range);
  const Draw k = F32(Matrices(a, a.s, a.dim), -a.range, a.range);
  const Draw v = F32(Matrices(a, a.s, a.width)), out = F32(Matrices(a, a.t, a.width));
  const ops::AttrMap attrs = AttrsOf(a.causal, 0.6, a.dropout);
  cases.push_back({.op = "fused_attention",
                   .inputs = {{q}, {k}, {v}, Position(a.dropout)},
                   .attrs = attrs,
                   .tolerance = kTolerance,
                   .grad_slots = {0, 1, 2},
                   .flops = a.bench ? FlopsOf(a, 2) : 0,
                   .bench = a.bench});
  // LogSum is about the largest possible score, so that the weights are at most about 1.
  const double largest = std::max(4.0, 0.6 * a.range * a.range * static_cast<double>(a.dim));
  const OpCase grad = {.op = "fused_attention_grad",
                       .inputs = {{q},
                                  {k},
                                  {v},
                                  Position(a.dropout),
                                  {out},
                                  {F32(Matrices(a, a.t, -1), largest, largest + 1)},
                                  {out}},
                       .attrs = attrs,
                       .tolerance = {.rel = 3e-6, .of_max = 1e-5, .abs = 1e-6},
                       .flops = a.bench ? FlopsOf(a, 5) : 0,
                       .bench = a.bench};
  cases.push_back(grad);
  if (a.bench || a.t != 5) return;
  for (const auto& absent : {std::vector<size_t>{0}, std::vector<size_t>{1}, std::vector<size_t>{2},
                             std::vector<size_t>{0, 2}}) {
    OpCase part = grad;
    part.absent_outputs = absent;
    cases.push_back(part);
  }
}

// Rows with query, key and value in one tensor.
void AddPacked(int64_t batch, int64_t t, int64_t heads, int64_t dim, bool causal, double dropout,
               std::vector<OpCase>& cases) {
  const Draw q = F32({batch, t, 3, heads, dim}), out = F32({batch, t, heads, dim});
  const ops::AttrMap attrs = AttrsOf(causal, 0.7, dropout);
  cases.push_back({.op = "fused_attention",
                   .inputs = {{q}, {}, {}, Position(dropout)},
                   .attrs = attrs,
                   .tolerance = kTolerance,
                   .grad_slots = {0}});
  cases.push_back(
      {.op = "fused_attention_grad",
       .inputs = {{q}, {}, {}, Position(dropout), {out}, {F32({batch, heads, t}, 4, 5)}, {out}},
       .attrs = attrs,
       .absent_outputs = {1, 2},
       .tolerance = {.rel = 3e-6, .of_max = 1e-5, .abs = 1e-6}});
}

}  // namespace

std::vector<OpCase> AttentionCases() {
  const Attention rows[] = {
      {{}, 1, 1, 1, 1},
      {{2}, 1, 1, 3, 2, true},
      {{2, 3}, 5, 7, 3, 4},
      {{3}, 5, 7, 3, 4, true},
      {{2}, 5, 9, 4, 4, true, 0.4},
      {{2, 2}, 64, 64, 8, 8, true},
      {{1}, 64, 128, 16, 8},
      {{2}, 65, 130, 5, 9},
      {{2}, 70, 70, 8, 8, true},
      {{1}, 3, 70, 4, 8, true},
      {{1}, 130, 200, 4, 4, true},  // in a block some rows are masked completely
      {{2}, 66, 67, 8, 4, false, 0.3},
      {{1}, 150, 150, 4, 4, true, 0.1},
      {{1}, 70, 90, 8, 8, false, 0, 6},  // a few weights of each row are nearly 1
      {{}, 256, 256, 32, 32, true},      // two threads share a matrix
      {{}, 200, 256, 48, 16, false, 0.2},
      {{0}, 4, 5, 3, 3},
      {{2}, 0, 5, 3, 3},
      {{2}, 4, 5, 3, 0},
      {{2}, 4, 5, 0, 3},
      {{64}, 128, 128, 32, 32, true, 0, 1, true},
      {{8}, 512, 512, 64, 64, true, 0, 1, true},
  };
  std::vector<OpCase> cases;
  for (const Attention& a : rows) AddSeparate(a, cases);
  AddPacked(1, 1, 1, 1, false, 0, cases);
  AddPacked(2, 5, 3, 4, true, 0, cases);
  AddPacked(2, 70, 3, 8, true, 0, cases);
  AddPacked(1, 131, 2, 5, false, 0, cases);
  AddPacked(1, 140, 2, 8, true, 0.25, cases);
  AddPacked(1, 300, 1, 32, false, 0, cases);  // two threads share a matrix
  AddPacked(0, 5, 3, 4, true, 0, cases);
  OpCase test = {.op = "fused_attention",
                 .inputs = {{F32({2, 5, 3})}, {F32({2, 6, 3})}, {F32({2, 6, 4})}, Position(0.5)},
                 .attrs = {{"dropout_prob", 0.5}, {"is_test", true}},
                 .tolerance = kTolerance,
                 .grad_slots = {0, 1, 2}};
  cases.push_back(test);
  return cases;
}

}  // namespace tandem::optest
