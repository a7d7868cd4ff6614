#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

void AddPool(const Shape& x, const std::string& type, bool lengths, bool bench,
             std::vector<OpCase>& cases) {
  const bool max = type == "max";
  OpCase c{.op = "sequence_pool",
           .inputs = {{max ? Distinct(x) : F32(x)}, {}},
           .attrs = {{"pooltype", type}},
           .tolerance = {.rel = 1e-6, .of_max = 1e-6},
           .grad_slots = {0},
           .bench = bench};
  if (lengths) c.inputs[1] = {Ids({x[0]}, x[1] + 1)};
  cases.push_back(c);
  // The gradient row below draws Out at random, so Out does not equal an element of X. The gradient
  // of max requires that equality, so max gets no gradient row here.
  if (max) return;
  c.op = "sequence_pool_grad";
  c.inputs.push_back({F32({x[0], x[2]})});
  c.inputs.push_back({F32({x[0], x[2]})});
  c.grad_slots = {};
  cases.push_back(c);
}

void AddMaxGrad(const Shape& x, Draw draw, std::vector<OpCase>& cases) {
  Draw out{.desc = {DType::kF32, {x[0], x[2]}}, .kind = Draw::kDerived};
  out.derive = [](std::span<const Value> before) {
    const Value& v = before[0];
    const auto steps = static_cast<size_t>(v.desc.shape[1]);
    const auto dim = static_cast<size_t>(v.desc.shape[2]);
    Value y{{DType::kF32, {v.desc.shape[0], v.desc.shape[2]}}, {}};
    for (size_t at = 0; at < v.v.size(); at += steps * dim) {
      for (size_t d = 0; d < dim; ++d) {
        double largest = v.v[at + d];
        for (size_t t = 0; t < steps; ++t) largest = std::max(largest, v.v[at + t * dim + d]);
        y.v.push_back(largest);
      }
    }
    return y;
  };
  cases.push_back({.op = "sequence_pool_grad",
                   .inputs = {{std::move(draw)}, {}, {out}, {F32({x[0], x[2]})}},
                   .attrs = {{"pooltype", std::string("max")}}});
}

void AddSigmoid(const Shape& shape, double range, bool bench, std::vector<OpCase>& cases) {
  const Draw labels = Ids(shape, 2);
  cases.push_back({.op = "sigmoid_cross_entropy",
                   .inputs = {{F32(shape, -range, range)}, {labels}},
                   .tolerance = {.rel = 1e-6, .abs = 1e-30},
                   .grad_slots = range < 20 ? std::vector<size_t>{0} : std::vector<size_t>{},
                   .grad_output = 1,
                   .bench = bench});
  cases.push_back({.op = "sigmoid_cross_entropy_grad",
                   .inputs = {{F32(shape, 0, 1)}, {labels}, {F32(shape)}},
                   .tolerance = {.rel = 1e-6, .of_max = 1e-7},
                   .bench = bench});
}

}  // namespace

std::vector<OpCase> ClickCases() {
  std::vector<OpCase> cases;
  for (const char* type : {"sum", "average", "sqrt", "max", "first", "last"}) {
    AddPool({1, 1, 1}, type, false, false, cases);
    AddPool({3, 4, 5}, type, false, false, cases);
    AddPool({7, 4, 70}, type, true, false, cases);
    AddPool({0, 4, 5}, type, false, false, cases);
    AddPool({400, 10, 33}, type, true, false, cases);
  }
  AddPool({512, 26, 16}, "sum", false, true, cases);
  AddMaxGrad({3, 4, 5}, Distinct({3, 4, 5}), cases);
  AddMaxGrad({3, 6, 5}, Few({3, 6, 5}), cases);  // several elements of a sequence equal the maximum
  for (const double range : {3.0, 80.0}) {
    AddSigmoid({1, 1}, range, false, cases);
    AddSigmoid({33, 1}, range, false, cases);
    AddSigmoid({6, 7}, range, false, cases);
  }
  AddSigmoid({0, 1}, 3, false, cases);
  AddSigmoid({65536, 1}, 3, true, cases);
  for (const int64_t columns : {1, 2}) {
    for (const int64_t buckets : {2, 50, 4096}) {
      for (const int64_t rows : {1, 300}) {
        cases.push_back({.op = "auc",
                         .inputs = {{F32({rows, columns}, 0, 1)},
                                    {Labels(rows, 2)},
                                    {Ids({buckets}, 4)},
                                    {Ids({buckets}, 9)}},
                         .tolerance = {.rel = 1e-6}});
      }
    }
  }
  // Ids in [0, 1) are all 0, so each histogram is empty.
  const Draw none = Ids({16}, 1);
  cases.push_back({.op = "auc",
                   .inputs = {{F32({40, 1}, 0, 1)}, {Labels(40, 1)}, {none}, {none}},
                   .tolerance = {.rel = 1e-6}});
  return cases;
}

}  // namespace tandem::optest
