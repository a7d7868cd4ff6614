#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

struct Lookup {
  Shape ids;
  int64_t rows, dim;
  ops::AttrMap attrs = {};
  bool bench = false;
};

// Returns the shape of the result of the lookup.
Shape RowsOf(const Lookup& l) {
  std::vector<int64_t> dims(l.ids.dims().begin(), l.ids.dims().end());
  const auto squeeze = l.attrs.find("squeeze_last");
  const bool keep = squeeze != l.attrs.end() && !std::get<bool>(squeeze->second);
  if (!keep && dims.size() > 1 && dims.back() == 1) dims.pop_back();
  dims.push_back(l.dim);
  return Shape(dims);
}

void AddLookup(const Lookup& l, std::vector<OpCase>& cases) {
  const Draw ids = Ids(l.ids, l.rows), w = F32({l.rows, l.dim});
  cases.push_back({.op = "lookup_table",
                   .inputs = {{ids}, {w}},
                   .attrs = l.attrs,
                   .grad_slots = {1},
                   .bench = l.bench});
  cases.push_back({.op = "lookup_table_grad",
                   .inputs = {{ids}, {w}, {F32(RowsOf(l))}},
                   .attrs = l.attrs,
                   .tolerance = Products(1 + l.ids.numel() / std::max<int64_t>(l.rows, 1)),
                   .bench = l.bench});
  ops::AttrMap sparse = l.attrs;
  sparse["is_sparse"] = true;
  cases.push_back(
      {.op = "lookup_table", .inputs = {{ids}, {w}}, .attrs = sparse, .grad_slots = {1}});
  cases.push_back({.op = "lookup_table_sparse_grad",
                   .inputs = {{ids}, {w}, {F32(RowsOf(l))}},
                   .attrs = sparse,
                   .tolerance = Products(1 + l.ids.numel() / std::max<int64_t>(l.rows, 1)),
                   .bench = l.bench});
}

}  // namespace

std::vector<OpCase> EmbeddingCases() {
  const ops::AttrMap keep = {{"squeeze_last", false}};
  const ops::AttrMap padding = {{"padding_idx", int64_t{2}}};
  const Lookup lookups[] = {
      {{1}, 1, 1},
      {{5}, 7, 3},
      {{40}, 3, 5},  // every row is looked up several times
      {{6, 1}, 9, 4},
      {{6, 1}, 9, 4, keep},
      {{1, 1}, 9, 4},
      {{4, 7}, 11, 17},
      {{4, 7}, 11, 17, padding},
      {{30}, 3, 2, padding},  // a third of the ids are padding
      {{2, 3, 1}, 50, 16, padding},
      {{2, 3, 4}, 50, 33},
      {{0}, 5, 3},
      {{4, 0}, 5, 3},
      {{3000, 5}, 100, 40},  // large enough that the work is split over threads
      {{512, 26}, 10000, 16, {}, true},
      {{32, 128}, 8192, 256, keep, true},
  };
  std::vector<OpCase> cases;
  for (const Lookup& l : lookups) AddLookup(l, cases);
  return cases;
}

}  // namespace tandem::optest
