#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

Draw Of(DType dtype, const Shape& shape) {
  // Draws integers in [0, 200), which every type represents exactly.
  return {.desc = {dtype, shape}, .kind = Draw::kLabel, .low = 0, .high = 200};
}

void AddTransposes(std::vector<OpCase>& cases) {
  struct Row {
    Shape x;
    Ints axis;
    bool bench = false;
  };
  const Row rows[] = {{{5}, {0}},
                      {{3, 4}, {0, 1}},
                      {{3, 4}, {1, 0}},
                      {{33, 65}, {1, 0}},
                      {{2, 3, 4}, {2, 0, 1}},
                      {{2, 3, 4}, {1, 0, 2}},
                      {{2, 5, 3, 4}, {0, 2, 1, 3}},
                      {{2, 5, 3, 4}, {3, 1, 2, 0}},
                      {{1, 5, 1, 4}, {2, 3, 0, 1}},
                      {{2, 3, 2, 2, 2, 2}, {5, 0, 4, 1, 3, 2}},
                      {{0, 4}, {1, 0}},
                      {{16, 128, 8, 32}, {0, 2, 1, 3}, true}};
  for (const Row& row : rows) {
    cases.push_back({.op = "transpose",
                     .inputs = {{F32(row.x)}},
                     .attrs = {{"axis", row.axis}},
                     .grad_slots = {0},
                     .bench = row.bench});
  }
  for (const DType dtype : {DType::kI64, DType::kF16, DType::kU8}) {
    cases.push_back({.op = "transpose",
                     .inputs = {{Of(dtype, {3, 4, 5})}},
                     .attrs = {{"axis", Ints{2, 1, 0}}}});
  }
}

void AddConcats(std::vector<OpCase>& cases) {
  struct Row {
    std::vector<Shape> x;
    int64_t axis;
    Shape total;
  };
  const Row rows[] = {{{{3, 4}}, 0, {3, 4}},
                      {{{3, 4}, {2, 4}}, 0, {5, 4}},
                      {{{3, 4}, {3, 1}, {3, 7}}, 1, {3, 12}},
                      {{{3, 4}, {3, 0}, {3, 7}}, -1, {3, 11}},
                      {{{2, 3, 4}, {2, 5, 4}}, 1, {2, 8, 4}},
                      {{{2, 1, 3, 2}, {2, 1, 3, 5}}, -1, {2, 1, 3, 7}}};
  for (const Row& row : rows) {
    OpCase c = {.op = "concat", .inputs = {{}}, .attrs = {{"axis", row.axis}}};
    bool empty = false;
    for (const Shape& x : row.x) {
      c.inputs[0].push_back(F32(x));
      empty |= x.numel() == 0;
    }
    if (!empty) c.grad_slots = {0};
    cases.push_back(c);
    for (size_t i = 0; i < row.x.size(); ++i) {
      cases.push_back({.op = "concat_grad",
                       .inputs = {{F32(row.total)}, c.inputs[0]},
                       .attrs = {{"axis", row.axis}, {"index", static_cast<int64_t>(i)}}});
    }
  }
  cases.push_back({.op = "concat",
                   .inputs = {{Of(DType::kI64, {2, 3}), Of(DType::kI64, {2, 2})}},
                   .attrs = {{"axis", int64_t{1}}}});
}

void AddSplits(std::vector<OpCase>& cases) {
  struct Row {
    Shape x;
    int64_t axis;
    Ints sections;  // sizes of the parts; empty: `count` equal parts
    size_t count;
  };
  const Row rows[] = {{{6, 4}, 0, {}, 1},           {{6, 4}, 0, {}, 3},
                      {{6, 4}, -1, {1, 3}, 2},      {{3, 2, 5, 4}, 0, {}, 3},
                      {{2, 9, 3}, 1, {4, 0, 5}, 3}, {{2, 9, 3}, 1, {2, 3, 4}, 3}};
  for (const Row& row : rows) {
    const ops::AttrMap attrs = {
        {"axis", row.axis},
        {"sections", row.sections},
        {"num", row.sections.empty() ? static_cast<int64_t>(row.count) : int64_t{0}}};
    cases.push_back({.op = "split",
                     .inputs = {{F32(row.x)}},
                     .attrs = attrs,
                     .many_outputs = row.count,
                     .grad_slots = {0}});
    // Adds rows with the gradients of all outputs, and rows with the gradient of a single output.
    const int axis = static_cast<int>(row.axis < 0 ? row.axis + row.x.rank() : row.axis);
    OpCase all = {.op = "split_grad", .inputs = {{F32(row.x)}, {}}, .attrs = attrs};
    all.attrs["outputs"] = static_cast<int64_t>(row.count);
    Ints every;
    for (size_t i = 0; i < row.count; ++i) {
      Shape part = row.x;
      part[axis] =
          row.sections.empty() ? row.x[axis] / static_cast<int64_t>(row.count) : row.sections[i];
      all.inputs[1].push_back(F32(part));
      every.push_back(static_cast<int64_t>(i));
      OpCase one = {.op = "split_grad", .inputs = {{F32(row.x)}, {F32(part)}}, .attrs = all.attrs};
      one.attrs["given"] = Ints{static_cast<int64_t>(i)};
      if (row.count > 1) cases.push_back(one);
    }
    all.attrs["given"] = every;
    cases.push_back(all);
  }
}

void AddSlices(std::vector<OpCase>& cases) {
  struct Row {
    Shape x;
    Ints axes, starts, ends;
    Shape part;
  };
  const Row rows[] = {{{7}, {0}, {2}, {5}, {3}},
                      {{7}, {0}, {-3}, {100}, {3}},
                      {{4, 5}, {}, {}, {}, {4, 5}},
                      {{4, 5}, {1}, {1}, {-1}, {4, 3}},
                      {{4, 5, 6}, {2, 0}, {0, 1}, {2, 3}, {2, 5, 2}},
                      {{4, 5, 6}, {-2}, {4}, {5}, {4, 1, 6}},
                      {{4, 5}, {0}, {2}, {2}, {0, 5}}};
  for (const Row& row : rows) {
    const ops::AttrMap attrs = {{"axes", row.axes}, {"starts", row.starts}, {"ends", row.ends}};
    cases.push_back({.op = "slice", .inputs = {{F32(row.x)}}, .attrs = attrs});
    if (row.part.numel() > 0) cases.back().grad_slots = {0};
    cases.push_back(
        {.op = "slice_grad", .inputs = {{F32(row.x)}, {F32(row.part)}}, .attrs = attrs});
  }
}

void AddCasts(std::vector<OpCase>& cases) {
  const DType all[] = {DType::kF32, DType::kF16, DType::kBF16,
                       DType::kI32, DType::kI64, DType::kU8};
  for (const DType from : all) {
    for (const DType to : all) {
      cases.push_back({.op = "cast",
                       .inputs = {{Of(from, {3, 11})}},
                       .attrs = {{"out_dtype", std::string(Name(to))}}});
    }
    cases.push_back({.op = "cast_grad", .inputs = {{Of(from, {4, 5})}, {Of(DType::kF32, {4, 5})}}});
  }
  for (const DType to : all) {
    const ops::AttrMap attrs = {{"out_dtype", std::string(Name(to))}};
    cases.push_back({.op = "cast", .inputs = {{F32({64}, -1000, 1000)}}, .attrs = attrs});
    cases.push_back({.op = "cast", .inputs = {{Special({55})}}, .attrs = attrs});
  }
  cases.push_back({.op = "cast", .inputs = {{F32({6, 2})}}, .grad_slots = {0}});
}

}  // namespace

std::vector<OpCase> LayoutCases() {
  std::vector<OpCase> cases;
  AddTransposes(cases);
  AddConcats(cases);
  AddSplits(cases);
  AddSlices(cases);
  AddCasts(cases);
  return cases;
}

}  // namespace tandem::optest
