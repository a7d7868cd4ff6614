// Tests that an optimizer gives the same bits for a whole parameter and for a parameter that is
// split into slices. Pservers hold slices and therefore depend on this property.
#include <gtest/gtest.h>

#include "tests/ops/kernel_run.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

constexpr uint64_t kSeed = 22;

// Returns the inputs of a slice: elements [begin, end) of every input that has the shape of the
// parameter; other inputs are unchanged.
std::vector<Value> Cut(const std::vector<Value>& whole, int64_t begin, int64_t end) {
  std::vector<Value> part = whole;
  for (Value& value : part) {
    if (value.desc != whole[0].desc) continue;
    value.desc.shape = {end - begin};
    value.v = {value.v.begin() + begin, value.v.begin() + end};
  }
  return part;
}

// Runs `c` with these inputs. Returns the bits of the outputs by position.
std::vector<std::string> RunOn(const OpCase& c, const std::vector<Value>& inputs,
                               const ops::KernelImpl& impl, int threads, bool in_place) {
  std::vector<std::string> bits;
  auto run = KernelRun::Make(c, inputs);
  EXPECT_TRUE(run.ok()) << run.status();
  const Status prepared = (*run)->Prepare(impl, threads);
  EXPECT_TRUE(prepared.ok()) << prepared;
  if (in_place) (*run)->Alias((*run)->def().inplace);
  const Status status = (*run)->Run();
  EXPECT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < (*run)->outputs().size(); ++i) {
    bits.push_back((*run)->HasOutput(i) ? (*run)->OutputBits(i) : "");
  }
  return bits;
}

void ExpectSlicesAlike(const OpCase& c, const std::vector<int64_t>& cuts, int threads) {
  const auto inputs = DrawInputs(c, kSeed);
  const int64_t n = inputs[0].desc.shape.numel();
  for (const ops::KernelImpl& impl : ops::FindOp(c.op)->cpu_kernels()) {
    const auto whole = RunOn(c, inputs, impl, threads, false);
    for (const int64_t cut : cuts) {
      SCOPED_TRACE(CaseName(c) + ": " + impl.name + ", cut at " + std::to_string(cut));
      const auto first = RunOn(c, Cut(inputs, 0, cut), impl, 1, true);
      const auto second = RunOn(c, Cut(inputs, cut, n), impl, threads, true);
      for (size_t i = 0; i < whole.size(); ++i) {
        const bool per_element = whole[i].size() == whole[0].size();
        const std::string joined = per_element ? first[i] + second[i] : first[i];
        ASSERT_TRUE(joined == whole[i]) << "output " << i;
      }
    }
  }
}

TEST(Slices, AnyCutOfSmallParameters) {
  for (const OpCase& c : OptimizerCases()) {
    const Shape& shape = c.inputs[0][0].desc.shape;
    if (shape.numel() < 2 || shape.numel() > 100) continue;
    std::vector<int64_t> cuts;
    for (int64_t cut = 0; cut <= shape.numel(); ++cut) cuts.push_back(cut);
    ExpectSlicesAlike(c, cuts, 1);
  }
}

TEST(Slices, LargeParametersOnThreads) {
  for (const OpCase& c : OptimizerCases()) {
    const int64_t n = c.inputs[0][0].desc.shape.numel();
    if (n < 100000) continue;
    ExpectSlicesAlike(c, {1, 4096, n / 2, n / 3 + 5, n - 1}, 2);
  }
}

}  // namespace
}  // namespace tandem::optest
