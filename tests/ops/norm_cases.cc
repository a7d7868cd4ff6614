#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

struct Norm {
  Shape x;
  bool bench = false;
  double low = -1;  // lower limit of X, which is drawn from [low, low + 2)
  ops::AttrMap attrs = {};
};

int64_t Samples(const Norm& n) { return n.x.numel() / n.x[1]; }

Draw PerChannel(const Norm& n, double low, double high) { return F32({n.x[1]}, low, high); }

// Returns whether the layout is NHWC. For NHWC, oneDNN splits its sums over the threads, so the
// bits depend on the number of threads.
bool ChannelsLast(const Norm& n) {
  const auto it = n.attrs.find("data_layout");
  return it != n.attrs.end() && std::get<std::string>(it->second) == "NHWC";
}

// `fused`: the fused operator, with relu. `z`: adds the input Z, which exists only in the fused
// operator.
OpCase Forward(const Norm& n, bool fused, bool z) {
  OpCase c = {.op = fused ? "fused_bn_add_activation" : "batch_norm",
              .inputs = {{F32(n.x, n.low, n.low + 2)},
                         {PerChannel(n, 0.5, 1.5)},
                         {PerChannel(n, -1, 1)},
                         {PerChannel(n, -1, 1)},
                         {PerChannel(n, 0.5, 2)}},
              .attrs = n.attrs,
              .tolerance = {.rel = 2e-6, .of_max = 4e-6},
              .grad_slots = {0, 1, 2},
              .bits_vary_with_threads = ChannelsLast(n),
              .bench = n.bench};
  // With one sample per channel, the variance is 0. The factor 1 / sqrt(epsilon) then amplifies
  // rounding errors of the other gradients, so the test checks only the gradient of the bias.
  if (Samples(n) == 1 && n.attrs.empty()) c.grad_slots = {2};
  if (!fused) return c;
  c.inputs.push_back({});
  if (z) {
    c.inputs[5] = {F32(n.x)};
    c.grad_slots.push_back(5);
  }
  return c;
}

OpCase Backward(const Norm& n, bool fused) {
  OpCase c = {.op = fused ? "fused_bn_add_activation_grad" : "batch_norm_grad",
              .inputs = {{F32(n.x, n.low, n.low + 2)},
                         {PerChannel(n, 0.5, 1.5)},
                         {PerChannel(n, n.low + 0.5, n.low + 1.5)},
                         {PerChannel(n, 0.5, 2)},
                         {F32(n.x)}},
              .attrs = n.attrs,
              .tolerance = Products(Samples(n)),
              .bits_vary_with_threads = ChannelsLast(n),
              .bench = n.bench};
  if (fused) c.inputs.push_back({F32(n.x)});
  c.inputs.push_back({});
  return c;
}

// Adds rows of the operators for normalisation over several ranks: moments of one rank, gradient
// sums of one rank, and gradients from the sums over all ranks.
void AddSync(const Norm& n, std::vector<OpCase>& cases) {
  const int64_t c = n.x[1];
  const Draw x = F32(n.x, n.low, n.low + 2);
  const Draw sums = F32({2 * c + 1}, 1, 3);
  const Tolerance tolerance = Products(Samples(n));
  ops::AttrMap place = n.attrs;
  place["rank"] = int64_t{1};
  place["ranks"] = int64_t{3};
  cases.push_back({.op = "batch_norm_moments",
                   .inputs = {{x}},
                   .attrs = place,
                   .tolerance = {.rel = 2e-6, .of_max = 4e-6},
                   .bench = n.bench});
  for (const bool relu : {false, true}) {
    OpCase own = {.op = "batch_norm_grad_sums",
                  .inputs = {{x}, {PerChannel(n, n.low + 0.5, n.low + 1.5)}, {F32(n.x)}, {}},
                  .attrs = n.attrs,
                  .tolerance = tolerance,
                  .bench = n.bench};
    if (relu) own.inputs[3] = {F32(n.x)};
    cases.push_back(own);
    OpCase grad = Backward(n, relu);
    grad.inputs.back() = {sums};
    cases.push_back(grad);
  }
}

OpCase Merge(int64_t channels) {
  const Draw running = F32({channels}, 0.5, 2);
  return {.op = "batch_norm_merge",
          .inputs = {{F32({3, 2 * channels + 1}, 1, 3)}, {running}, {running}},
          .attrs = {{"momentum", 0.75}},
          .tolerance = {.rel = 2e-6},
          .bench = channels == 64};
}

void AddNorm(const Norm& n, std::vector<OpCase>& cases) {
  cases.push_back(Forward(n, false, false));
  cases.push_back(Forward(n, true, false));
  cases.push_back(Forward(n, true, true));
  for (const bool fused : {false, true}) {
    OpCase grad = Backward(n, fused);
    cases.push_back(grad);
    if (n.bench) continue;
    for (const auto& absent : {std::vector<size_t>{0}, std::vector<size_t>{1, 2}}) {
      grad.absent_outputs = absent;
      cases.push_back(grad);
    }
    if (!fused) continue;
    for (const auto& absent :
         {std::vector<size_t>{3}, std::vector<size_t>{0, 3}, std::vector<size_t>{0, 1, 2}}) {
      grad.absent_outputs = absent;
      cases.push_back(grad);
    }
  }
}

}  // namespace

std::vector<OpCase> NormCases() {
  const ops::AttrMap test = {{"is_test", true}};
  const ops::AttrMap blocked = {{"data_layout", std::string("nChw16c")}};
  const ops::AttrMap last = {{"data_layout", std::string("NHWC")}};
  const Norm norms[] = {
      {.x = {2, 3, 4, 5}},
      {.x = {4, 2, 8, 8}, .low = 30},  // the mean of X is far from 0
      {.x = {3, 5, 7, 7}},             // 49 elements per channel: three vectors and a tail
      {.x = {2, 17, 9, 9}, .attrs = {{"momentum", 0.5}, {"epsilon", 1e-3}}},
      {.x = {8, 6}},  // two dimensions, as after a fully connected layer
      {.x = {2, 3, 20}},
      {.x = {1, 2, 1, 1}},  // one sample per channel
      {.x = {2, 2, 3, 4, 5}},
      {.x = {2, 3, 6, 7}, .attrs = test},
      {.x = {1, 4, 1, 1}, .attrs = test},
      {.x = {2, 16, 3, 5}, .attrs = blocked},
      {.x = {3, 48, 6, 6}, .low = 20, .attrs = blocked},
      {.x = {2, 32, 4, 4}, .attrs = {{"data_layout", std::string("nChw16c")}, {"is_test", true}}},
      {.x = {2, 5, 3, 4}, .attrs = last},
      {.x = {3, 48, 6, 6}, .low = 30, .attrs = last},
      {.x = {2, 8, 5, 5}, .attrs = last},  // each pixel fills pieces of 16 bytes, even in 16 bits
      {.x = {2, 24, 3, 4}, .attrs = last},
      {.x = {2, 40, 3, 4}, .attrs = last},
      // Three blocks of rows. The channels of a pixel end in a partly filled vector.
      {.x = {2, 19, 12, 12}, .low = 4, .attrs = last},
      {.x = {2, 20, 4, 4}, .attrs = {{"data_layout", std::string("NHWC")}, {"is_test", true}}},
      {.x = {16, 64, 32, 32}, .bench = true},
      {.x = {16, 64, 32, 32}, .bench = true, .attrs = last},
      {.x = {16, 64, 32, 32}, .bench = true, .attrs = blocked},
  };
  std::vector<OpCase> cases;
  for (const Norm& n : norms) {
    AddNorm(n, cases);
    const bool plain = !n.attrs.contains("is_test") && !n.attrs.contains("momentum");
    if (plain && !ChannelsLast(n)) AddSync(n, cases);
  }
  for (const int64_t channels : {1, 3, 64}) cases.push_back(Merge(channels));
  return cases;
}

}  // namespace tandem::optest
