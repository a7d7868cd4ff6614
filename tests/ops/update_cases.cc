#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

constexpr Tolerance kUpdateStep{.rel = 2e-5, .of_max = 1e-5};

struct Table {
  int64_t height, dim;
  int64_t n, used;  // n: capacity of the sparse gradient in rows; used: its number of rows
  bool bench = false;
};

void AddSparse(const Table& t, bool lazy, std::vector<OpCase>& cases) {
  const Shape shape{t.height, t.dim};
  const Draw p = F32(shape), positive = F32(shape, 0.1, 1), lr = F32({1}, 0.01, 0.1);
  const Draw g = SparseValues(t.n, t.used, t.dim), rows = SparseRowIds(t.n, t.used, t.height);
  const Draw power = F32({1}, 0.3, 0.9);
  const auto add = [&](OpCase c) {
    if (lazy) c.attrs["lazy_mode"] = true;
    c.tolerance = kUpdateStep;
    c.bench = t.bench;
    cases.push_back(std::move(c));
  };
  if (!lazy) {
    add({.op = "sgd", .inputs = {{p}, {g}, {lr}, {rows}}});
    add({.op = "adagrad", .inputs = {{p}, {g}, {positive}, {lr}, {rows}}});
    add({.op = "regularize", .inputs = {{p}, {g}, {rows}}, .attrs = {{"l1", 0.5}, {"l2", 0.25}}});
  }
  add({.op = "momentum", .inputs = {{p}, {g}, {F32(shape)}, {lr}, {rows}}});
  add({.op = "adam",
       .inputs = {{p}, {g}, {F32(shape)}, {positive}, {power}, {power}, {lr}, {rows}}});
  if (t.bench) return;
  add({.op = "decayed_adagrad", .inputs = {{p}, {g}, {positive}, {lr}, {rows}}});
  add({.op = "adamax", .inputs = {{p}, {g}, {F32(shape)}, {positive}, {power}, {lr}, {rows}}});
  add({.op = "rmsprop",
       .inputs = {{p}, {g}, {positive}, {F32(shape)}, {F32(shape, -0.2, 0.2)}, {lr}, {rows}},
       .attrs = {{"centered", true}, {"mu", 0.5}}});
  add({.op = "ftrl",
       .inputs = {{p}, {g}, {positive}, {F32(shape)}, {lr}, {rows}},
       .attrs = {{"l1", 0.1}, {"l2", 0.1}}});
}

void AddSparseSums(std::vector<OpCase>& cases) {
  const auto pair = [](const Table& t) {
    return std::vector<Draw>{SparseValues(t.n, t.used, t.dim), SparseRowIds(t.n, t.used, t.height)};
  };
  const std::vector<std::vector<Table>> sums = {
      {{9, 3, 4, 4}},
      {{9, 3, 5, 2}, {9, 3, 6, 6}},
      {{9, 3, 9, 9}, {9, 3, 6, 5}, {9, 3, 2, 0}},
      // Sizes at which the radix sort needs two digits and two threads share the work.
      {{5000, 17, 700, 600}, {5000, 17, 900, 900}},
  };
  for (const auto& tables : sums) {
    OpCase c{.op = "sum_sparse_rows",
             .inputs = {{}},
             .attrs = {{"height", tables[0].height}},
             .tolerance = {.rel = 2e-7, .of_max = 2e-7}};
    for (const Table& t : tables) {
      for (const Draw& d : pair(t)) c.inputs[0].push_back(d);
    }
    cases.push_back(c);
    const auto first = pair(tables[0]);
    cases.push_back({.op = "sparse_rows_to_dense",
                     .inputs = {{first[0]}, {first[1]}},
                     .attrs = {{"height", tables[0].height}}});
  }
}

// Adds rows of optimizers that use norms of whole parameters.
void AddWhole(const Shape& shape, bool bench, std::vector<OpCase>& cases) {
  const Draw p = F32(shape), g = F32(shape), lr = F32({1}, 0.01, 0.1);
  const Draw power = F32({1}, 0.3, 0.9);
  for (const double decay : {0.0, 0.01}) {
    cases.push_back({.op = "lars_momentum",
                     .inputs = {{p}, {g}, {F32(shape)}, {lr}},
                     .attrs = {{"weight_decay", decay}},
                     .tolerance = kUpdateStep,
                     .bench = bench});
    cases.push_back({.op = "lamb",
                     .inputs = {{p}, {g}, {F32(shape)}, {F32(shape, 0, 1)}, {power}, {power}, {lr}},
                     .attrs = {{"weight_decay", decay}},
                     .tolerance = kUpdateStep,
                     .bench = bench});
  }
  cases.push_back({.op = "regularize",
                   .inputs = {{p}, {g}, {}},
                   .attrs = {{"l1", 0.1}, {"l2", 0.01}},
                   .tolerance = kUpdateStep,
                   .bench = bench});
  cases.push_back({.op = "clip",
                   .inputs = {{Distinct(shape)}},
                   .attrs = {{"min", -0.305}, {"max", 0.505}},
                   .tolerance = {.rel = 1e-7},
                   .grad_slots = {0},
                   .bench = bench});
  cases.push_back({.op = "clip_grad",
                   .inputs = {{F32(shape)}, {g}},
                   .attrs = {{"min", -0.3}, {"max", 0.5}},
                   .bench = bench});
  for (const double limit : {0.5, 1e6}) {
    cases.push_back({.op = "clip_by_norm",
                     .inputs = {{g}},
                     .attrs = {{"max_norm", limit}},
                     .tolerance = kUpdateStep,
                     .bench = bench});
  }
}

}  // namespace

std::vector<OpCase> UpdateCases() {
  std::vector<OpCase> cases;
  const Table tables[] = {
      {1, 1, 1, 1},     {4, 3, 4, 4},         {9, 5, 4, 2}, {50, 1, 7, 7},
      {40, 17, 30, 11}, {3000, 16, 200, 150}, {6, 2, 3, 0}, {50000, 16, 2000, 1500, true}};
  for (const Table& t : tables) {
    AddSparse(t, false, cases);
    AddSparse(t, true, cases);
  }
  AddSparseSums(cases);
  for (const Shape& shape : {Shape{1}, Shape{17}, Shape{3, 4, 5}, Shape{0}, Shape{9000}}) {
    AddWhole(shape, false, cases);
  }
  AddWhole({300001}, true, cases);
  for (const double limit : {0.5, 1e6}) {
    cases.push_back({.op = "clip_by_global_norm",
                     .inputs = {{F32({3, 4}), F32({0}), F32({9000})}},
                     .attrs = {{"max_norm", limit}},
                     .many_outputs = 3,
                     .tolerance = kUpdateStep});
  }
  const Draw zero = F32({20}, 0, 0), lr = F32({1}, 0.1, 0.1), half = F32({1}, 0.5, 0.5);
  cases.push_back({.op = "lars_momentum",
                   .inputs = {{zero}, {F32({20})}, {zero}, {lr}},
                   .tolerance = kUpdateStep});
  cases.push_back({.op = "lamb",
                   .inputs = {{zero}, {F32({20})}, {zero}, {zero}, {half}, {half}, {lr}},
                   .tolerance = kUpdateStep});
  return cases;
}

}  // namespace tandem::optest
