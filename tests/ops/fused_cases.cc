#include "absl/strings/str_cat.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

constexpr Tolerance kOnce{.rel = 1.2e-7, .of_max = 1.2e-7};

// Inputs for sums with relu: X in [2, 3), Y in +-[0.1, 1). No sum is near 0, where relu has its
// kink.
Draw Large(const Shape& shape) { return F32(shape, 2, 3); }

void AddActivation(const Shape& x, const Shape& y, int64_t axis, bool bench,
                   std::vector<OpCase>& cases) {
  for (const std::string act : {"relu", "scale"}) {
    for (const bool act_first : {false, true}) {
      const ops::AttrMap attrs = {
          {"axis", axis},
          {"functors", act_first ? "elementwise_add," + act : act + ",elementwise_add"},
          {"scale", act == "scale" ? -1.5 : 1.0}};
      const bool check = !bench && x.numel() < 200;
      cases.push_back({.op = "fused_elemwise_activation",
                       .inputs = {{check ? Large(x) : F32(x)}, {AwayFromZero(y)}},
                       .attrs = attrs,
                       .tolerance = kOnce,
                       .grad_slots = check ? std::vector<size_t>{0, 1} : std::vector<size_t>{},
                       .bench = bench});
      OpCase grad = {.op = "fused_elemwise_activation_grad",
                     .inputs = {{F32(x)}, {F32(y)}, {F32(x)}},
                     .attrs = attrs,
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
}

// A chain of scale, relu and additions. A later operator of the chain also reads the output out0.
void AddChain(const Shape& shape, bool bench, std::vector<OpCase>& cases) {
  const Draw x = F32(shape);
  cases.push_back(
      {.op = "fused_elementwise",
       .inputs = {{x, x, x}},
       .many_outputs = 2,
       .tolerance = {.rel = 3e-7, .of_max = 3e-7},
       .body =
           {{.type = "scale", .inputs = {{"in0"}}, .outputs = {{"a"}}, .attrs = {{"scale", 2.0}}},
            {.type = "elementwise_add", .inputs = {{"a"}, {"in1"}}, .outputs = {{"out0"}}},
            {.type = "relu", .inputs = {{"out0"}}, .outputs = {{"b"}}},
            {.type = "sum", .inputs = {{"b", "in2", "a"}}, .outputs = {{"out1"}}}},
       .bench = bench});
}

std::string In(size_t i) { return absl::StrCat("in", i); }
std::string Out(size_t i) { return absl::StrCat("out", i); }

// One chain of all operators on single elements that a body may contain, except optimizers.
// Operators with a kink are only in f32 rows: in 16 bits, the rounding of an intermediate value
// could move the value across the kink.
void AddFormulas(int64_t n, DType type, std::vector<OpCase>& cases) {
  const auto draw = [type](Draw d) {
    d.desc.dtype = type;
    return d;
  };
  const bool kinks = type == DType::kF32;
  const ops::AttrMap tanh_form = {{"approximate", true}};
  const double eps = kinks ? 1e-5 : type == DType::kF16 ? 1e-2 : 1e-1;
  OpCase c = {.op = "fused_elementwise",
              .inputs = {{draw(F32({n})), draw(F32({n})), draw(AwayFromZero({n}))}},
              .many_outputs = 2,
              .tolerance = {.rel = eps, .of_max = eps}};
  c.body = {
      {.type = "sigmoid", .inputs = {{"in0"}}, .outputs = {{"a"}}},
      {.type = "tanh", .inputs = {{"a"}}, .outputs = {{"b"}}},
      {.type = "gelu", .inputs = {{"b"}}, .outputs = {{"c"}}},
      {.type = "gelu", .inputs = {{"in1"}}, .outputs = {{"d"}}, .attrs = tanh_form},
      {.type = "elementwise_sub", .inputs = {{"c"}, {"d"}}, .outputs = {{"e"}}},
      {.type = "elementwise_mul", .inputs = {{"e"}, {"in0"}}, .outputs = {{"f"}}},
      {.type = "elementwise_div", .inputs = {{"f"}, {"in2"}}, .outputs = {{"g"}}},
      {.type = kinks ? "elementwise_max" : "elementwise_add",
       .inputs = {{"g"}, {"in1"}},
       .outputs = {{"h"}}},
      {.type = "scale",
       .inputs = {{"h"}},
       .outputs = {{"out0"}},
       .attrs = {{"scale", -1.5}, {"bias", 0.3}}},
      {.type = kinks ? "relu_grad" : "elementwise_mul",
       .inputs = {{"h"}, {"in1"}},
       .outputs = {{"i"}}},
      {.type = "sigmoid_grad", .inputs = {{"a"}, {"i"}}, .outputs = {{"j"}}},
      {.type = "tanh_grad", .inputs = {{"b"}, {"j"}}, .outputs = {{"k"}}},
      {.type = "gelu_grad", .inputs = {{"in0"}, {"k"}}, .outputs = {{"l"}}},
      {.type = "gelu_grad", .inputs = {{"in1"}, {"l"}}, .outputs = {{"m"}}, .attrs = tanh_form},
      {.type = "sum", .inputs = {{"l", "m", "out0", "a"}}, .outputs = {{"out1"}}},
  };
  cases.push_back(std::move(c));
}

// An optimizer and its slots. A character describes each slot: 'p' is drawn like the parameter, 's'
// is drawn smaller, '+' is far from 0, '1' has one element, '-' is absent.
struct Update {
  std::string type, slots;
  ops::AttrMap attrs = {};
};

// Adds a row with one update for each size. Each update has a separate learning rate.
void AddUpdates(const Update& update, const std::vector<int64_t>& sizes, bool bench,
                std::vector<OpCase>& cases) {
  OpCase c = {.op = "fused_elementwise",
              .inputs = {{}},
              .tolerance = {.rel = 2e-5, .of_max = 1e-6},
              .bench = bench};
  c.many_outputs = 0;
  for (const int64_t n : sizes) {
    ops::Op op{.type = update.type, .inputs = {}, .outputs = {{Out(c.many_outputs++)}}};
    op.attrs = update.attrs;
    const auto add = [&](const Draw& d) {
      op.inputs.push_back({In(c.inputs[0].size())});
      c.inputs[0].push_back(d);
    };
    add(F32({n}));
    add(F32({n}));
    for (const char slot : update.slots) {
      op.outputs.emplace_back();
      if (slot == '-') {
        op.inputs.emplace_back();
        continue;
      }
      op.outputs.back().push_back(Out(c.many_outputs++));
      add(slot == 'p'   ? F32({n})
          : slot == 's' ? F32({n}, -0.5, 0.5)
          : slot == '+' ? F32({n}, 0.5, 1)
                        : F32({1}, 0.1, 0.9));
    }
    add(F32({1}, 0.01, 0.1));
    // Leaves the input Rows empty, so the gradient is dense.
    op.inputs.resize(ops::FindOp(update.type)->inputs.size());
    c.body.push_back(std::move(op));
  }
  cases.push_back(std::move(c));
}

void AddLossScaling(std::vector<OpCase>& cases) {
  const Draw scale = F32({1}, 128, 128);
  for (const int64_t n : {1, 17, 5000}) {
    cases.push_back({.op = "check_finite_and_unscale",
                     .inputs = {{scale}, {F32({n}), F32({3, 5})}},
                     .many_outputs = 2,
                     .tolerance = kOnce});
    cases.push_back({.op = "check_finite_and_unscale",
                     .inputs = {{scale}, {F32({n}), Special({n})}},
                     .many_outputs = 2,
                     .tolerance = {.rel = 1.2e-7, .abs = 1e-45}});
  }
  cases.push_back({.op = "check_finite_and_unscale",
                   .inputs = {{scale}, {F32({1 << 20})}},
                   .tolerance = kOnce,
                   .bench = true});
  for (const double finite : {0.0, 1.0}) {
    for (const double now : {1.0, 128.0, 3e38}) {
      for (const double steps : {0.0, 1.0, 2.0}) {
        cases.push_back({.op = "update_loss_scaling",
                         .inputs = {{F32({1}, finite, finite)},
                                    {F32({1}, now, now)},
                                    {F32({1}, steps, steps)},
                                    {F32({1}, steps, steps)}},
                         .attrs = {{"incr_every_n_steps", int64_t{3}}, {"decr_ratio", 0.5}},
                         .tolerance = kOnce});
      }
    }
  }
}

}  // namespace

std::vector<OpCase> FusedCases() {
  std::vector<OpCase> cases;
  AddActivation({2, 3, 5}, {2, 3, 5}, -1, false, cases);
  AddActivation({4, 17}, {17}, -1, false, cases);
  AddActivation({2, 3, 4, 5}, {3}, 1, false, cases);
  AddActivation({3, 2500}, {2500}, -1, false, cases);
  AddActivation({2, 3, 2100}, {3}, 1, false, cases);
  AddActivation({2, 2, 3, 3}, {2, 3}, 1, false, cases);
  AddActivation({0, 4}, {4}, -1, false, cases);
  AddActivation({32, 64, 28, 28}, {64}, 1, true, cases);
  for (const int64_t n : {0, 1, 17, 4095, 4096, 4097, 12288, 100001}) AddChain({n}, false, cases);
  AddChain({3, 5, 7}, false, cases);
  AddChain({1 << 20}, true, cases);
  AddLossScaling(cases);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t n : {1, 2049, 5003}) AddFormulas(n, type, cases);
  }
  const ops::AttrMap nesterov = {{"use_nesterov", true}}, centered = {{"centered", true}};
  const std::vector<Update> updates = {{"sgd", ""},
                                       {"momentum", "p"},
                                       {"momentum", "p", nesterov},
                                       {"adam", "p+11"},
                                       {"adam", "p+11", {{"weight_decay", 0.1}}},
                                       {"adagrad", "+"},
                                       {"decayed_adagrad", "+"},
                                       {"adamax", "p+1"},
                                       {"rmsprop", "+p-"},
                                       {"rmsprop", "+ps", centered},
                                       {"ftrl", "+p"}};
  for (size_t i = 0; i < updates.size(); ++i) {
    // Sizes differ by row, so that the rows have different names.
    const auto odd = static_cast<int64_t>(i);
    AddUpdates(updates[i], {5 + odd}, false, cases);
    AddUpdates(updates[i], {1, 4096, 0, 33 + odd, 9000}, false, cases);
  }
  for (const size_t i : {0, 1, 3}) {
    AddUpdates(updates[i], std::vector<int64_t>(40, 2000), true, cases);
  }
  // These rows have more updates than one kernel launch can have.
  AddUpdates({"sgd", ""}, std::vector<int64_t>(700, 3), false, cases);
  AddUpdates({"adam", "p+11"}, std::vector<int64_t>(300, 3), false, cases);
  return cases;
}

}  // namespace tandem::optest
