#include <string_view>

#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

constexpr Tolerance kSoftmax{.rel = 2e-6, .of_max = 2e-7};

struct Rows {
  int64_t rows, classes;
  double range = 3;  // logits are drawn from [-range, range)
  int ignore_every = 0;
  int64_t ignore = -100;
  bool bench = false;
};

void AddSoftmax(const Rows& r, std::vector<OpCase>& cases) {
  const Shape shape{r.rows, r.classes};
  const Draw labels = Labels(r.rows, r.classes, r.ignore_every, r.ignore);
  ops::AttrMap attrs;
  if (r.ignore != -100) attrs["ignore_index"] = r.ignore;
  cases.push_back({.op = "softmax_with_cross_entropy",
                   .inputs = {{F32(shape, -r.range, r.range)}, {labels}},
                   .attrs = attrs,
                   .tolerance = kSoftmax,
                   .grad_slots = r.range < 20 ? std::vector<size_t>{0} : std::vector<size_t>{},
                   .grad_output = 1,
                   .bench = r.bench});
  cases.push_back({.op = "softmax_with_cross_entropy_grad",
                   .inputs = {{SoftmaxRows(shape)}, {labels}, {F32({r.rows, 1})}},
                   .attrs = attrs,
                   .tolerance = kSoftmax,
                   .bench = r.bench});
}

void AddAccuracy(int64_t rows, int64_t classes, bool count, std::vector<OpCase>& cases) {
  cases.push_back({.op = "accuracy",
                   .inputs = {{F32({rows, classes})}, {Labels(rows, classes)}},
                   .absent_outputs = count ? std::vector<size_t>{} : std::vector<size_t>{1},
                   .tolerance = {.rel = 1e-7}});
}

// `above`: whether X is above Label everywhere; false: X is below Label everywhere. Thus no element
// is at the kink of l1_loss.
void AddRegression(const char* op, const Shape& shape, bool above, std::vector<OpCase>& cases) {
  const Draw high = F32(shape, 0.6, 3), low = F32(shape, -3, 0.5);
  ops::AttrMap attrs;
  if (std::string_view(op) == "huber_loss") attrs["delta"] = 0.75;
  cases.push_back({.op = op,
                   .inputs = {{above ? high : low}, {above ? low : high}},
                   .attrs = attrs,
                   .tolerance = {.rel = 1e-6, .abs = 1e-12},
                   .grad_slots = {0}});
  cases.push_back({.op = std::string(op) + "_grad",
                   .inputs = {{above ? high : low}, {above ? low : high}, {F32(shape)}},
                   .attrs = attrs,
                   .tolerance = {.rel = 1e-6, .abs = 1e-12}});
}

}  // namespace

std::vector<OpCase> LossCases() {
  const Rows sizes[] = {{.rows = 1, .classes = 1},
                        {.rows = 1, .classes = 2},
                        {.rows = 1, .classes = 10},
                        {.rows = 5, .classes = 3},
                        {.rows = 64, .classes = 10},
                        {.rows = 7, .classes = 15},
                        {.rows = 4, .classes = 16},
                        {.rows = 3, .classes = 17},
                        {.rows = 2, .classes = 33},
                        {.rows = 5, .classes = 1000},
                        {.rows = 6, .classes = 9, .ignore_every = 2},
                        {.rows = 6, .classes = 9, .ignore_every = 3, .ignore = -1},
                        {.rows = 8, .classes = 5, .ignore_every = 4, .ignore = 2},
                        {.rows = 3, .classes = 4, .ignore_every = 1},
                        {.rows = 9, .classes = 12, .range = 50},
                        // The softmax of every element except the largest one underflows to 0.
                        {.rows = 9, .classes = 12, .range = 1e4},
                        {.rows = 0, .classes = 4},
                        {.rows = 512, .classes = 1000, .bench = true}};
  std::vector<OpCase> cases;
  for (const Rows& r : sizes) AddSoftmax(r, cases);
  AddAccuracy(1, 1, true, cases);
  AddAccuracy(64, 10, true, cases);
  AddAccuracy(64, 10, false, cases);
  AddAccuracy(7, 33, true, cases);
  // Ties: several classes have the largest score. Only the first of these classes is the
  // prediction.
  cases.push_back({.op = "accuracy",
                   .inputs = {{F32({40, 3}, 0.25, 0.25)}, {Labels(40, 3)}},
                   .tolerance = {.rel = 1e-7}});
  for (const int64_t k : {2, 5, 10}) {
    cases.push_back({.op = "accuracy",
                     .inputs = {{F32({64, 10})}, {Labels(64, 10)}},
                     .attrs = {{"k", k}},
                     .tolerance = {.rel = 1e-7}});
    cases.push_back({.op = "accuracy",
                     .inputs = {{Few({64, 10})}, {Labels(64, 10)}},
                     .attrs = {{"k", k}},
                     .tolerance = {.rel = 1e-7}});
  }
  // Every second label is -100, which no row can predict.
  cases.push_back({.op = "accuracy",
                   .inputs = {{F32({9, 3})}, {Labels(9, 3, 2, -100)}},
                   .tolerance = {.rel = 1e-7}});
  for (const char* op : {"square_error_cost", "huber_loss", "l1_loss"}) {
    for (const int64_t columns : {1, 7}) {
      AddRegression(op, {1, columns}, false, cases);
      AddRegression(op, {33, columns}, true, cases);
      AddRegression(op, {6, columns}, false, cases);
      AddRegression(op, {12, columns}, true, cases);
    }
  }
  return cases;
}

}  // namespace tandem::optest
