#include <algorithm>
#include <array>

#include "common/base/rng.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

// A generator of random sizes and attributes.
class Dice {
 public:
  explicit Dice(uint64_t key) : key_(key) {}
  // Returns a random integer in [low, high], both inclusive.
  int64_t In(int64_t low, int64_t high) {
    const auto span = static_cast<double>(high - low + 1);
    return low + static_cast<int64_t>(span * static_cast<double>(UniformAt(key_, at_++)));
  }

 private:
  uint64_t key_, at_ = 0;
};

OpCase RandomConv(Dice& dice) {
  const int64_t groups = dice.In(0, 2) == 0 ? dice.In(1, 4) : 1;
  const int64_t in_c = groups * dice.In(1, 18 / groups), out_c = groups * dice.In(1, 20 / groups);
  Ints kernel, strides, paddings, dilations;
  Shape x{dice.In(1, 3), in_c, 0, 0};
  for (int d = 0; d < 2; ++d) {
    kernel.push_back(dice.In(1, 4));
    strides.push_back(dice.In(1, 3));
    paddings.push_back(dice.In(0, 3));
    dilations.push_back(dice.In(1, 2));
    const int64_t least = dilations[d] * (kernel[d] - 1) + 1 - 2 * paddings[d];
    x[2 + d] = std::max<int64_t>(least, 1) + dice.In(0, 7);
  }
  OpCase c = {.op = "conv2d",
              .inputs = {{F32(x)}, {F32({out_c, in_c / groups, kernel[0], kernel[1]})}, {}},
              .attrs = {{"strides", strides},
                        {"paddings", paddings},
                        {"dilations", dilations},
                        {"groups", groups}},
              .tolerance = Products(in_c / groups * kernel[0] * kernel[1]),
              .grad_slots = {0, 1}};
  if (dice.In(0, 1) == 1) {
    c.inputs[2] = {F32({out_c})};
    c.grad_slots.push_back(2);
  }
  return c;
}

OpCase RandomPool(Dice& dice) {
  Ints kernel, strides, paddings;
  Shape x{dice.In(1, 3), dice.In(1, 5), 0, 0};
  for (int d = 0; d < 2; ++d) {
    kernel.push_back(dice.In(1, 4));
    strides.push_back(dice.In(1, 4));
    paddings.push_back(dice.In(0, kernel[d] - 1));
    x[2 + d] = std::max<int64_t>(kernel[d] - 2 * paddings[d], 1) + dice.In(0, 20);
  }
  const bool max = dice.In(0, 1) == 1;
  return {.op = "pool2d",
          .inputs = {{max ? Distinct(x) : F32(x)}},
          .attrs = {{"pooling_type", std::string(max ? "max" : "avg")},
                    {"ksize", kernel},
                    {"strides", strides},
                    {"paddings", paddings},
                    {"exclusive", dice.In(0, 1) == 1}},
          .tolerance = max ? Tolerance{} : Tolerance{.of_max = 1e-6},
          .grad_slots = {0}};
}

OpCase RandomFc(Dice& dice) {
  const int64_t m = dice.In(1, 40), k = dice.In(1, 70), n = dice.In(1, 70);
  OpCase c = {.op = "fc",
              .inputs = {{F32({m, k})}, {F32({k, n})}, {}},
              .tolerance = Products(k),
              .grad_slots = {0, 1}};
  if (dice.In(0, 1) == 1) {
    c.inputs[2] = {F32({n})};
    c.grad_slots.push_back(2);
  }
  return c;
}

OpCase RandomElementwise(Dice& dice) {
  Ints dims;
  const int64_t rank = dice.In(1, 5);
  for (int64_t d = 0; d < rank; ++d) dims.push_back(dice.In(1, 6));
  const int64_t from = dice.In(0, rank - 1), to = dice.In(from + 1, rank);
  const Ints y(dims.begin() + from, dims.begin() + to);
  return {.op = dice.In(0, 1) == 1 ? "elementwise_add" : "elementwise_mul",
          .inputs = {{F32(Shape(dims))}, {F32(Shape(y))}},
          .attrs = {{"axis", from}},
          .tolerance = {.rel = 1.2e-7},
          .grad_slots = {0, 1}};
}

}  // namespace

std::vector<OpCase> RandomCases(uint64_t seed, int count) {
  constexpr std::array kMakers = {RandomConv, RandomPool, RandomFc, RandomElementwise};
  Dice dice(StreamKey(seed, "random cases"));
  std::vector<OpCase> cases;
  for (int i = 0; i < count; ++i) {
    cases.push_back(kMakers[static_cast<size_t>(i) % kMakers.size()](dice));
  }
  return cases;
}

std::vector<OpCase> AllCases() {
  std::vector<OpCase> all;
  for (const auto& family :
       {LinearCases(), ImageCases(), NormCases(), ElementwiseCases(), LossCases(), EmbeddingCases(),
        ClickCases(), OptimizerCases(), UpdateCases(), FusedCases(), DenseCases(), LayoutCases(),
        AttentionCases(), HalfCases(), RegimeCases()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace tandem::optest
