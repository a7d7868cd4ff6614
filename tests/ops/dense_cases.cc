#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

// Tolerance for functions around exp that are computed as polynomials with about ten terms.
constexpr Tolerance kSmooth{.rel = 2e-6, .of_max = 3e-7};

void AddActivations(const Shape& x, double range, bool bench, std::vector<OpCase>& cases) {
  for (const std::string op : {"sigmoid", "tanh"}) {
    cases.push_back({.op = op,
                     .inputs = {{F32(x, -range, range)}},
                     .tolerance = kSmooth,
                     .grad_slots = {0},
                     .bench = bench});
    cases.push_back({.op = op + "_grad",
                     .inputs = {{F32(x, op == "tanh" ? -1 : 0, 1)}, {F32(x)}},
                     .tolerance = kSmooth,
                     .bench = bench});
  }
  for (const bool approximate : {false, true}) {
    cases.push_back({.op = "gelu",
                     .inputs = {{F32(x, -range, range)}},
                     .attrs = {{"approximate", approximate}},
                     .tolerance = kSmooth,
                     .grad_slots = {0},
                     .bench = bench});
    cases.push_back({.op = "gelu_grad",
                     .inputs = {{F32(x, -range, range)}, {F32(x)}},
                     .attrs = {{"approximate", approximate}},
                     .tolerance = kSmooth,
                     .bench = bench});
  }
}

void AddSoftmax(const Shape& x, double range, bool causal, bool bench, std::vector<OpCase>& cases) {
  cases.push_back({.op = "softmax",
                   .inputs = {{F32(x, -range, range)}},
                   .attrs = {{"causal", causal}},
                   .tolerance = {.rel = 4e-6, .of_max = 2e-7},
                   .grad_slots = {0},
                   .bench = bench});
  cases.push_back({.op = "softmax_grad",
                   .inputs = {{F32(x, 0, 1)}, {F32(x)}},
                   .attrs = {{"causal", causal}},
                   .tolerance = kSums,
                   .bench = bench});
}

void AddLayerNorm(const Shape& x, int64_t axis, bool bench, std::vector<OpCase>& cases) {
  const int from = static_cast<int>(axis);
  const Shape row{x.numel(from, x.rank())}, rows{x.numel(0, from)};
  const ops::AttrMap attrs = {{"begin_norm_axis", axis}, {"epsilon", 1e-3}};
  for (const bool affine : {true, false}) {
    const auto param = [&] { return affine ? std::vector<Draw>{F32(row)} : std::vector<Draw>{}; };
    cases.push_back({.op = "layer_norm",
                     .inputs = {{F32(x, -2, 3)}, param(), param()},
                     .attrs = attrs,
                     .tolerance = kSums,
                     .grad_slots = affine ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{0},
                     .bench = bench && affine});
    cases.push_back(
        {.op = "layer_norm_grad",
         .inputs = {{F32(x)}, param(), {F32(rows, -0.1, 0.1)}, {F32(rows, 0.3, 0.4)}, {F32(x)}},
         .attrs = attrs,
         .tolerance = {.of_max = 1e-5},
         .bench = bench && affine});
  }
  OpCase part = cases.back();
  part.bench = false;
  for (const size_t absent : {0, 1, 2}) {
    part.absent_outputs = {absent};
    cases.push_back(part);
  }
}

// The position input of dropout: samples [first, first + samples) of the batch of a step.
Draw Position(int64_t first, int64_t samples) {
  const auto derive = [first, samples](std::span<const Value>) {
    const std::vector<double> at = {5, 17, static_cast<double>(first),
                                    static_cast<double>(samples)};
    return Value{{DType::kI64, {4}}, at};
  };
  return {.desc = {DType::kI64, {4}}, .kind = Draw::kDerived, .derive = derive};
}

void AddDropout(const Shape& x, int64_t first, int64_t samples, double p, bool bench,
                std::vector<OpCase>& cases) {
  const auto name = absl::StrFormat("%d of %d", first, samples);
  cases.push_back({.op = "dropout",
                   .inputs = {{F32(x)}, {Position(first, samples)}},
                   .attrs = {{"dropout_prob", p}, {"name", name}},
                   .tolerance = {.rel = 2.5e-7},
                   .grad_slots = {0},
                   .bench = bench});
}

void AddReduce(const Shape& x, const Ints& dim, bool keep, std::vector<OpCase>& cases) {
  const ops::AttrMap attrs = {{"dim", dim}, {"keep_dim", keep}};
  for (const std::string op : {"reduce_sum", "reduce_mean", "reduce_max"}) {
    cases.push_back({.op = op,
                     .inputs = {{Distinct(x)}},
                     .attrs = attrs,
                     .tolerance = {.of_max = 1e-6, .abs = 1e-6},
                     .grad_slots = {0}});
  }
}

void AddReduceGrads(std::vector<OpCase>& cases) {
  const Shape x{3, 4, 5}, out{3, 5};
  const ops::AttrMap attrs = {{"dim", Ints{1}}};
  for (const std::string op : {"reduce_sum_grad", "reduce_mean_grad"}) {
    cases.push_back(
        {.op = op, .inputs = {{F32(x)}, {F32(out)}}, .attrs = attrs, .tolerance = {.rel = 2.5e-7}});
  }
  // Several elements equal the maximum. Each of these elements gets the gradient.
  cases.push_back(
      {.op = "reduce_max_grad", .inputs = {{Few(x)}, {F32(out)}, {Few(out)}}, .attrs = attrs});
}

}  // namespace

std::vector<OpCase> DenseCases() {
  std::vector<OpCase> cases;
  for (const int64_t n : {0, 1, 7, 16, 33, 1000}) AddActivations({n}, 3, false, cases);
  AddActivations({5, 4, 50}, 0.7, false, cases);
  AddActivations({3, 301}, 12, false, cases);
  AddActivations({401, 1003}, 4, true, cases);
  for (const std::string op : {"sigmoid", "tanh"}) {
    cases.push_back({.op = op, .inputs = {{Special({97})}}, .tolerance = kSmooth});
  }
  AddSoftmax({1}, 3, false, false, cases);
  AddSoftmax({5, 3}, 3, false, false, cases);
  AddSoftmax({2, 3, 17}, 3, false, false, cases);
  AddSoftmax({4, 64}, 40, false, false, cases);
  AddSoftmax({2, 2, 9, 100}, 5, false, false, cases);
  AddSoftmax({0, 4}, 3, false, false, cases);
  AddSoftmax({1, 1}, 3, true, false, cases);
  AddSoftmax({7, 7}, 3, true, false, cases);
  AddSoftmax({2, 3, 20, 20}, 3, true, false, cases);
  AddSoftmax({2, 3, 33}, 3, true, false, cases);
  AddSoftmax({16, 8, 128, 128}, 3, true, true, cases);
  AddSoftmax({2048, 256}, 3, false, true, cases);
  AddLayerNorm({1, 1}, 1, false, cases);
  AddLayerNorm({4, 5}, 1, false, cases);
  AddLayerNorm({4, 5}, 0, false, cases);
  AddLayerNorm({2, 3, 17}, 2, false, cases);
  AddLayerNorm({2, 3, 4, 9}, 1, false, cases);
  AddLayerNorm({150, 33}, 1, false, cases);
  AddLayerNorm({0, 5}, 1, false, cases);
  AddLayerNorm({2048, 256}, 1, true, cases);
  AddDropout({7}, 0, 1, 0.5, false, cases);
  AddDropout({4, 5}, 3, 2, 0.1, false, cases);
  AddDropout({4, 5}, 3, 4, 0.9, false, cases);
  AddDropout({12, 3, 111}, 5, 6, 0.3, false, cases);
  AddDropout({0, 5}, 3, 1, 0.5, false, cases);
  AddDropout({9, 9}, 0, 9, 0.0, false, cases);
  AddDropout({2048, 256}, 16, 16, 0.1, true, cases);
  cases.push_back({.op = "dropout",
                   .inputs = {{F32({6, 7})}, {Position(0, 0)}},
                   .attrs = {{"is_test", true}},
                   .grad_slots = {0}});
  for (const bool keep : {false, true}) {
    AddReduce({7}, {}, keep, cases);
    AddReduce({3, 4, 5}, {}, keep, cases);
    AddReduce({3, 4, 5}, {0}, keep, cases);
    AddReduce({3, 4, 5}, {1}, keep, cases);
    AddReduce({3, 4, 40}, {-1}, keep, cases);
    AddReduce({3, 4, 5}, {2, 1}, keep, cases);
    AddReduce({3, 4, 5}, {0, 2}, keep, cases);
    AddReduce({2, 3, 4, 5}, {1, 3}, keep, cases);
    AddReduce({2, 3, 4, 5, 2}, {0, 2, 4}, keep, cases);
    AddReduce({0, 3}, {1}, keep, cases);
  }
  AddReduceGrads(cases);
  return cases;
}

}  // namespace tandem::optest
